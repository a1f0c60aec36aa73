// The gather of "fp8" records into bf16 rows, SPEC.md TWIN-9: a warp takes a row, a lane pairs of elements. The scale is
// read here and not on the host.
#include "e4m3.cuh"
#include "generic_gather.cuh"

extern "C" __global__ void generic_fp8_gather(GenericGatherArgs args) {
    const int lane = static_cast<int>(threadIdx.x);
    const int lanes = static_cast<int>(blockDim.x);
    const int pairs = static_cast<int>(args.row_elements) / 2;
    Row row;
    if (!find_row(args, row)) return;

    const float scale = *args.scale;
    const unsigned short* record = reinterpret_cast<const unsigned short*>(row.record);
    for (int pair = lane; pair < pairs; pair += lanes) {
        const float2 number = e4m3_values(record[pair]);
        store_pair(row.out, 2 * pair, number.x * scale, number.y * scale);  // TWIN-9
    }
}
