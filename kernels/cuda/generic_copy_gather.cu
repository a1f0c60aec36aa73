// The gather of "auto" records into bf16 rows, SPEC.md TWIN-8: a warp takes a row, a lane pairs of elements, bit for bit.
#include "generic_gather.cuh"

extern "C" __global__ void generic_copy_gather(GenericGatherArgs args) {
    const int lane = static_cast<int>(threadIdx.x);
    const int lanes = static_cast<int>(blockDim.x);
    const int pairs = static_cast<int>(args.row_elements) / 2;
    Row row;
    if (!find_row(args, row)) return;

    const unsigned* record = reinterpret_cast<const unsigned*>(row.record);
    unsigned* out = reinterpret_cast<unsigned*>(row.out);
    for (int pair = lane; pair < pairs; pair += lanes) out[pair] = record[pair];  // TWIN-8
}
