// merge_attn_states for outputs of binary16, SPEC.md chapter MERGE.
#include "merge.cuh"

extern "C" __global__ void merge_f16(MergeArgs args) { merging::merge<__half>(args); }
