// The largest magnitude of a block or tile (WRITE-10).
#pragma once

#include "mla_write.cuh"
#include "quantization.cuh"

// The magnitudes of bf16 are in the order of their bits, with the infinity above all numbers and the NaN above that.
__device__ inline unsigned larger_magnitude(unsigned amax, unsigned bf16) {
    const unsigned magnitude = bf16 & 0x7FFF;
    const bool counts = kNanSpreads || magnitude <= kBf16Infinity;  // WRITE-10
    return counts && magnitude > amax ? magnitude : amax;
}

// The amax of 2 * `count` elements; a NaN only where NaN spreads.
__device__ inline float amax_of(const unsigned* pairs, int count) {
    unsigned amax = 0;
#pragma unroll
    for (int i = 0; i < count; ++i) amax = larger_magnitude(larger_magnitude(amax, pairs[i]), pairs[i] >> 16);
    return __uint_as_float(amax << 16);
}
