// The writer of "auto" records, SPEC.md WRITE-19: both rows, bit for bit.
#include "mla_write.cuh"
#include "nvfp4_record.cuh"

extern "C" __global__ void mla_copy(WriteArgs args) {
    const int lane = static_cast<int>(threadIdx.x);
    const int lanes = static_cast<int>(blockDim.x);
    Token token;
    if (!find_token(args, token)) return;

    unsigned* latent = reinterpret_cast<unsigned*>(token.record);
    unsigned* rope = latent + kKvLoraRank / 2;
    for (int pair = lane; pair < kKvLoraRank / 2; pair += lanes) latent[pair] = token.latent[pair];  // WRITE-19
    for (int pair = lane; pair < kQkRopeHeadDim / 2; pair += lanes) rope[pair] = token.rope[pair];  // WRITE-19
}
