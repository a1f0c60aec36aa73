// The gather of fp8_ds_mla records into bf16 rows, SPEC.md chapter TWIN: a warp takes a row, a lane pairs of elements.
#include <cuda_bf16.h>

#include "e4m3.cuh"
#include "gather_row.cuh"
#include "nvfp4_record.cuh"

namespace fp8_ds_mla {

constexpr int kTile = 128;  // elements under one scale
constexpr int kTileScales = kKvLoraRank;
constexpr int kRope = kTileScales + kKvLoraRank / kTile * static_cast<int>(sizeof(float));

static_assert(kTile % 2 == 0, "no pair straddles two tiles");
static_assert(kTileScales == 512 && kRope == 528 && kRope + 2 * kQkRopeHeadDim == 656, "WRITE-16");

}  // namespace fp8_ds_mla

extern "C" __global__ void fp8_gather(GatherArgs args) {
    using namespace fp8_ds_mla;
    const int lane = static_cast<int>(threadIdx.x);
    const int lanes = static_cast<int>(blockDim.x);
    Row row;
    if (!find_row(args, row)) return;

    const unsigned short* latent = reinterpret_cast<const unsigned short*>(row.record);
    const float* scales = reinterpret_cast<const float*>(row.record + kTileScales);
    for (int pair = lane; pair < kKvLoraRank / 2; pair += lanes) {
        const float2 number = e4m3_values(latent[pair]);
        const float scale = scales[2 * pair / kTile];  // WRITE-16
        store_pair(row.out, 2 * pair, number.x * scale, number.y * scale);  // TWIN-2
    }
    const unsigned* rope = reinterpret_cast<const unsigned*>(row.record + kRope);
    unsigned* out = reinterpret_cast<unsigned*>(row.out + kKvLoraRank);
    for (int pair = lane; pair < kQkRopeHeadDim / 2; pair += lanes) out[pair] = rope[pair];  // TWIN-3
}
