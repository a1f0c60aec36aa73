// Which record a row of a gather comes from, and where the row goes: SPEC.md GATHER-1 to GATHER-3, PAGE-1, PAGE-2. A warp
// takes a row, and each of its lanes searches for itself. A line that carries a rule of SPEC.md cites the clause, and the
// suite's self-check breaks those lines one at a time.
#pragma once

#include <cuda_bf16.h>

#include "gather_args.cuh"

struct Row {
    const unsigned char* record;
    __nv_bfloat16* out;
};

// The last request r < num_requests with workspace_starts[r] <= row, or -1 without one.
__device__ inline long long owner_of(const int* workspace_starts, long long num_requests, long long row) {
    long long first = 0;
    long long last = num_requests;
    while (first < last) {
        const long long middle = first + (last - first) / 2;
        if (workspace_starts[middle] <= row) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    return first - 1;  // GATHER-1
}

__device__ inline long long row_of_warp() {
    return static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
}

// The row with the number `row`, which belongs to the request `owner`.
__device__ inline Row row_of(const GatherArgs& args, long long row, long long owner) {
    const long long start = args.seq_starts == nullptr ? 0 : args.seq_starts[owner];  // GATHER-2, GATHER-3
    const long long token = row - args.workspace_starts[owner] + start;  // GATHER-2
    const long long column = token / args.block_size;  // PAGE-1
    const long long slot = token % args.block_size;  // PAGE-1
    const long long block = args.block_table[owner * args.table_row_stride + column];  // PAGE-1, GATHER-8
    const long long offset = block * args.cache_block_stride + slot * args.cache_record_stride;  // PAGE-2, GATHER-9
    return {args.src_cache + offset, args.dst + row * args.dst_row_stride};  // GATHER-8
}

// False for a warp without a row.
__device__ inline bool find_row(const GatherArgs& args, Row& found) {
    const long long row = row_of_warp();
    if (row >= args.num_rows) return false;  // GATHER-5

    const long long owner = owner_of(args.workspace_starts, args.num_requests, row);
    if (owner < 0) return false;

    found = row_of(args, row, owner);
    return true;
}

// The one place where a float becomes bf16: the nearest, and 0x7FFF for a NaN.
__device__ inline __nv_bfloat16 to_bf16(float value) {
    return __float2bfloat16_rn(value);  // READ-3, READ-6, TWIN-4
}

// Two neighbours at once, so that the 32 lanes of a warp write 128 contiguous bytes.
__device__ inline void store_pair(__nv_bfloat16* row, int column, float even, float odd) {
    *reinterpret_cast<__nv_bfloat162*>(row + column) = __halves2bfloat162(to_bf16(even), to_bf16(odd));
}
