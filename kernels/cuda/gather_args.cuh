// What a gather kernel is told. Python packs the same struct: kernels/catalog.py.
#pragma once

#include <cuda_bf16.h>

// Every member has 8 bytes, so that NumPy, ctypes and every compiler lay it out alike without being told.
struct GatherArgs {
    const unsigned char* src_cache;
    __nv_bfloat16* dst;
    const int* block_table;
    const int* workspace_starts;
    const int* seq_starts;          // null: every start is 0 (GATHER-3)
    long long num_rows;             // T
    long long num_requests;         // R
    long long block_size;           // tokens
    long long cache_block_stride;   // bytes
    long long cache_record_stride;  // bytes
    long long table_row_stride;     // elements
    long long table_columns;        // max_blocks; it bounds a row of the table and never separates two of them
    long long dst_row_stride;       // elements
};

static_assert(sizeof(GatherArgs) == 13 * 8, "a member of GatherArgs is not 8 bytes wide");
