// The writer of fp8_ds_mla records, SPEC.md WRITE-16 to WRITE-18. Each lane of a tile works out the tile's scale.
#include "amax.cuh"
#include "mla_write.cuh"
#include "nvfp4_record.cuh"
#include "quantization.cuh"

namespace fp8_ds_mla {

constexpr int kTile = 128;  // elements under one scale
constexpr int kPart = 16;   // elements that a lane encodes
constexpr int kElementsOfWord = 4;
constexpr int kTileScales = kKvLoraRank;
constexpr int kRope = kTileScales + kKvLoraRank / kTile * static_cast<int>(sizeof(float));

static_assert(kTile % kPart == 0 && kPart % kElementsOfWord == 0, "no word straddles two parts, no part two tiles");
static_assert(kTileScales == 512 && kRope == 528 && kRope + 2 * kQkRopeHeadDim == 656, "WRITE-16");

// The smallest power of two that is not below a positive normal number, from its bits, so that nothing is rounded.
__device__ inline float power_of_two_not_below(float x) {
    if (x != x) return x;
    return __uint_as_float((__float_as_uint(x) + 0x007FFFFFu) & 0x7F800000u);
}

__device__ inline float scale_of_tile(float amax) {
    const float wanted = __fdiv_rn(amax, 448.0f);
    const float least = kTilePowerOfTwo ? 1e-4f : 0x1p-126f;  // WRITE-17
    const float bounded = wanted < least ? least : wanted;
    return kTilePowerOfTwo ? power_of_two_not_below(bounded) : bounded;  // WRITE-17
}

// One of a tile's eight parts; the first brings the scale along.
__device__ inline void write_part(const Token& token, int part) {
    const int first = part * kPart;
    const int tile = first / kTile;
    const float scale = scale_of_tile(amax_of(token.latent + tile * kTile / 2, kTile / 2));
    unsigned* words = reinterpret_cast<unsigned*>(token.record + first);
#pragma unroll
    for (int i = 0; i < kPart / kElementsOfWord; ++i) {
        words[i] = e4m3_quotients(token.latent + first / 2 + 2 * i, scale);  // WRITE-18
    }
    if (first % kTile == 0) reinterpret_cast<float*>(token.record + kTileScales)[tile] = scale;  // WRITE-16
}

}  // namespace fp8_ds_mla

extern "C" __global__ void fp8_ds_mla_write(WriteArgs args) {
    using namespace fp8_ds_mla;
    const int lane = static_cast<int>(threadIdx.x);
    const int lanes = static_cast<int>(blockDim.x);
    Token token;
    if (!find_token(args, token)) return;

    for (int part = lane; part < kKvLoraRank / kPart; part += lanes) write_part(token, part);

    unsigned* rope = reinterpret_cast<unsigned*>(token.record + kRope);
    for (int pair = lane; pair < kQkRopeHeadDim / 2; pair += lanes) rope[pair] = token.rope[pair];  // WRITE-16
}
