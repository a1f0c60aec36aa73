// merge_attn_states for outputs of binary32, SPEC.md chapter MERGE.
#include "merge.cuh"

extern "C" __global__ void merge_f32(MergeArgs args) { merging::merge<float>(args); }
