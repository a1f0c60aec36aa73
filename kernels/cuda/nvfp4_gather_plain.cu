// The gather of nvfp4_ds_mla records into bf16 rows, SPEC.md chapters READ, PAGE and GATHER: the plain kernel.
//
// It is the readable one. A warp takes a row, a lane takes bytes of the record, NVIDIA's own headers convert, and
// nothing is shared between lanes. NVRTC, nvcc and, with host/launch.hpp, a C++17 compiler build it unchanged. A line
// that carries a rule of SPEC.md cites the clause, and the suite's self-check breaks those lines one at a time.
#include <cuda_bf16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

#include "gather_args.cuh"
#include "nvfp4_record.cuh"

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

__device__ inline float e4m3_value(unsigned char byte) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3)));
}

// The low nibble's value in x, the high nibble's in y.
__device__ inline float2 e2m1_values(unsigned char byte) {
    return __half22float2(__half2(__nv_cvt_fp4x2_to_halfraw2(byte, __NV_E2M1)));
}

// The one place where a float becomes bf16: exact for every number a record can hold, and 0x7FFF for a NaN.
__device__ inline __nv_bfloat16 to_bf16(float value) {
    return __float2bfloat16_rn(value);  // READ-3, READ-6
}

// Two neighbours at once, so that the 32 lanes of a warp write 128 contiguous bytes.
__device__ inline void store_pair(__nv_bfloat16* row, int column, float even, float odd) {
    *reinterpret_cast<__nv_bfloat162*>(row + column) = __halves2bfloat162(to_bf16(even), to_bf16(odd));
}

extern "C" __global__ void nvfp4_gather_plain(GatherArgs args) {
    const int lane = static_cast<int>(threadIdx.x);
    const int lanes = static_cast<int>(blockDim.x);
    const long long row = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
    if (row >= args.num_rows) return;  // GATHER-5

    const long long owner = owner_of(args.workspace_starts, args.num_requests, row);
    if (owner < 0) return;

    const long long start = args.seq_starts == nullptr ? 0 : args.seq_starts[owner];  // GATHER-2, GATHER-3
    const long long token = row - args.workspace_starts[owner] + start;  // GATHER-2
    const long long column = token / args.block_size;  // PAGE-1
    const long long slot = token % args.block_size;  // PAGE-1
    const long long block = args.block_table[owner * args.table_row_stride + column];  // PAGE-1, GATHER-8
    const long long offset = block * args.cache_block_stride + slot * args.cache_record_stride;  // PAGE-2, GATHER-9
    const unsigned char* record = args.src_cache + offset;
    __nv_bfloat16* out = args.dst + row * args.dst_row_stride;  // GATHER-8

    for (int byte = lane; byte < kLatentBytes; byte += lanes) {
        const float scale = e4m3_value(record[scale_byte_of(byte / kScaleBlockBytes)]);  // READ-4
        const float2 code = e2m1_values(record[kLatentOffset + byte]);
        store_pair(out, 2 * byte, code.x * scale, code.y * scale);  // RECORD-2, READ-1
    }
    for (int pair = lane; pair < kQkRopeHeadDim / 2; pair += lanes) {  // GATHER-6
        const unsigned char* rope = record + kRopeOffset + 2 * pair;  // RECORD-3
        store_pair(out, kKvLoraRank + 2 * pair, e4m3_value(rope[0]), e4m3_value(rope[1]));  // READ-2
    }
}
