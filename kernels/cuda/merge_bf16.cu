// merge_attn_states for outputs of bf16, SPEC.md chapter MERGE.
#include "merge.cuh"

extern "C" __global__ void merge_bf16(MergeArgs args) { merging::merge<__nv_bfloat16>(args); }
