// What a merging kernel is told. Python packs the same struct: kernels/merge_catalog.py.
#pragma once

// A partial result; where it lies is counted in elements. A null `lse` is none (MERGE-7).
struct Partial {
    void* output;                  // [num_tokens, num_heads, head_size], the elements of a head side by side
    float* lse;                    // [num_heads, num_tokens]
    long long output_token_stride;
    long long output_head_stride;
    long long lse_head_stride;
    long long lse_token_stride;
};

// Every member has 8 bytes, so that NumPy, ctypes and every compiler lay it out alike without being told.
struct MergeArgs {
    Partial merged;
    Partial prefix;
    Partial suffix;
    long long num_tokens;  // T
    long long num_heads;   // H
    long long head_size;   // D
};

static_assert(sizeof(MergeArgs) == 21 * 8, "a member of MergeArgs is not 8 bytes wide");
