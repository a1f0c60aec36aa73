// merge_attn_states as C++.
#include "launch.hpp"

#include "intrinsics.hpp"

#include "../cuda/merge_bf16.cu"
#include "../cuda/merge_f16.cu"
#include "../cuda/merge_f32.cu"

EXPORT_KERNEL(merge_bf16, MergeArgs)
EXPORT_KERNEL(merge_f16, MergeArgs)
EXPORT_KERNEL(merge_f32, MergeArgs)
