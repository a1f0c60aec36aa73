// What a writing kernel is told. Python packs the same struct: kernels/write_catalog.py.
#pragma once

// Every member has 8 bytes, so that NumPy, ctypes and every compiler lay it out alike without being told.
struct WriteArgs {
    const unsigned short* kv_c;  // encodings of bf16
    const unsigned short* k_pe;  // encodings of bf16
    unsigned char* kv_cache;
    const long long* slot_mapping;
    const float* scale;
    long long num_tokens;           // T
    long long block_size;           // tokens
    long long cache_block_stride;   // bytes
    long long cache_record_stride;  // bytes
    long long kv_c_row_stride;      // elements
    long long k_pe_row_stride;      // elements
};

static_assert(sizeof(WriteArgs) == 11 * 8, "a member of WriteArgs is not 8 bytes wide");
