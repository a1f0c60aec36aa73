// Two partial results of attention into one, SPEC.md chapter MERGE: a warp takes a head of a token, a lane some elements.
//
// All lanes need both LSEs, and each reads them for itself. output_lse may be one of the two arrays (MERGE-6), so the last
// lane writes it, and not before all have read: on a CPU, where host/launch.hpp runs the lanes in turn, it comes last.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "merge_args.cuh"

namespace merging {

__device__ inline float infinity() { return __uint_as_float(0x7F800000u); }

__device__ inline float number_of(float element) { return element; }
__device__ inline float number_of(__half element) { return __half2float(element); }
__device__ inline float number_of(__nv_bfloat16 element) { return __bfloat162float(element); }

// The nearest number of an element's type.
__device__ inline void store(float* element, float number) { *element = number; }
__device__ inline void store(__half* element, float number) { *element = __float2half_rn(number); }
__device__ inline void store(__nv_bfloat16* element, float number) { *element = __float2bfloat16_rn(number); }

// The place of an element of the first dimensions of an array, whatever the strides (MERGE-8).
__device__ inline float* lse_of(const Partial& partial, long long token, long long head) {
    return partial.lse + head * partial.lse_head_stride + token * partial.lse_token_stride;  // MERGE-8
}

template <class Element>
__device__ Element* elements_of(const Partial& partial, long long token, long long head) {
    const long long offset = token * partial.output_token_stride + head * partial.output_head_stride;  // MERGE-8
    return static_cast<Element*>(partial.output) + offset;
}

__device__ inline float counted(float lse) {
    return lse == infinity() ? -infinity() : lse;  // MERGE-3
}

// What an element contributes. Without a share nothing is multiplied, since 0 * NaN is NaN.
__device__ inline float part_of(float number, float share) {
    return share > 0.0f ? number * share : 0.0f;  // MERGE-4, MERGE-5
}

template <class Element>
__device__ void merge(const MergeArgs& args) {
    const int lane = static_cast<int>(threadIdx.x);
    const int lanes = static_cast<int>(blockDim.x);
    const long long number = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
    if (number >= args.num_tokens * args.num_heads) return;  // MERGE-9
    const long long token = number / args.num_heads;
    const long long head = number % args.num_heads;

    const float prefix_lse = counted(*lse_of(args.prefix, token, head));
    const float suffix_lse = counted(*lse_of(args.suffix, token, head));
    const float most = prefix_lse > suffix_lse ? prefix_lse : suffix_lse;
    // The larger weight is 1. If neither has any, both are NaN, and each comparison below says no, as for a 0 (MERGE-5).
    const float prefix_weight = expf(prefix_lse - most);
    const float suffix_weight = expf(suffix_lse - most);
    const float total = prefix_weight + suffix_weight;
    const float prefix_share = prefix_weight / total;
    const float suffix_share = suffix_weight / total;

    const Element* prefix = elements_of<Element>(args.prefix, token, head);
    const Element* suffix = elements_of<Element>(args.suffix, token, head);
    Element* merged = elements_of<Element>(args.merged, token, head);
    for (long long i = lane; i < args.head_size; i += lanes) {
        const float prefix_part = part_of(number_of(prefix[i]), prefix_share);
        const float suffix_part = part_of(number_of(suffix[i]), suffix_share);
        store(merged + i, prefix_part + suffix_part);  // MERGE-1
    }

    __syncwarp();  // MERGE-6
    if (args.merged.lse == nullptr || lane != lanes - 1) return;  // MERGE-7
    *lse_of(args.merged, token, head) = total > 1.0f ? most + logf(total) : most;  // MERGE-2, MERGE-4, MERGE-5
}

}  // namespace merging
