// What a gather of records of n numbers alike is told, and its rows: SPEC.md TWIN-5 to TWIN-7. Python packs the same
// struct: kernels/generic_catalog.py.
#pragma once

#include "gather_row.cuh"

struct GenericGatherArgs {
    GatherArgs gather;        // num_rows is num_tokens, workspace_starts is cu_seq_lens
    const int* token_to_seq;
    const float* scale;
    long long row_elements;   // n
};

static_assert(sizeof(GenericGatherArgs) == sizeof(GatherArgs) + 3 * 8, "a member is not 8 bytes wide");

// False for a warp without a row.
__device__ inline bool find_row(const GenericGatherArgs& args, Row& found) {
    const long long row = row_of_warp();
    if (row >= args.gather.num_rows) return false;  // TWIN-7
    found = row_of(args.gather, row, args.token_to_seq[row]);  // TWIN-6
    return true;
}
