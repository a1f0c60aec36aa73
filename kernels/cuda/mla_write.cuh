// What the writers share: a warp takes a token, a lane some of its elements, two of them a word.
//
// Lanes share nothing, so that host/launch.hpp can run these sources as C++: what several lanes need, each works out
// for itself. All arithmetic is by functions that round once and that no compiler merges with a neighbour.
#pragma once

#include <cuda_fp4.h>
#include <cuda_fp8.h>

#include "write_args.cuh"

constexpr unsigned kBf16Infinity = 0x7F80;

struct Token {
    const unsigned* latent;  // kKvLoraRank / 2 words
    const unsigned* rope;    // kQkRopeHeadDim / 2 words
    unsigned char* record;
};

// Finds the token of this thread's warp; false: there is nothing to write.
__device__ inline bool find_token(const WriteArgs& args, Token& token) {
    const long long number = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
    if (number >= args.num_tokens) return false;  // WRITE-3
    const long long slot = args.slot_mapping[number];  // WRITE-7
    if (slot < 0) return false;  // WRITE-2
    const long long block = slot / args.block_size;   // WRITE-1
    const long long record = slot % args.block_size;  // WRITE-1
    token.latent = reinterpret_cast<const unsigned*>(args.kv_c + number * args.kv_c_row_stride);  // WRITE-6
    token.rope = reinterpret_cast<const unsigned*>(args.k_pe + number * args.k_pe_row_stride);    // WRITE-6
    token.record = args.kv_cache + (block * args.cache_block_stride + record * args.cache_record_stride);  // PAGE-2
    return true;
}

// A word's two bf16, widened: the element of even index in x, the odd one in y.
__device__ inline float2 widened(unsigned pair) {
    return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u));
}

// e4m3 of two numbers, the first in the low byte (SCALAR-5, SCALAR-6).
__device__ inline unsigned e4m3_pair(float2 numbers) {
    return __nv_cvt_float2_to_fp8x2(numbers, __NV_SATFINITE, __NV_E4M3);
}

__device__ inline float2 quotients(float2 numbers, float divisor) {
    return make_float2(__fdiv_rn(numbers.x, divisor), __fdiv_rn(numbers.y, divisor));
}

// e4m3(x / divisor) of the four elements in two words, the first in the lowest byte.
__device__ inline unsigned e4m3_quotients(const unsigned* pairs, float divisor) {
    const unsigned low = e4m3_pair(quotients(widened(pairs[0]), divisor));
    const unsigned high = e4m3_pair(quotients(widened(pairs[1]), divisor));
    return low | high << 16;
}
