// The writer of "fp8" records, SPEC.md WRITE-20: both rows under one scale, which is read here and not on the host.
#include "mla_write.cuh"
#include "nvfp4_record.cuh"

extern "C" __global__ void mla_fp8_write(WriteArgs args) {
    constexpr int elements_of_word = 4;
    constexpr int latent_words = kKvLoraRank / elements_of_word;
    constexpr int rope_words = kQkRopeHeadDim / elements_of_word;
    const int lane = static_cast<int>(threadIdx.x);
    const int lanes = static_cast<int>(blockDim.x);
    Token token;
    if (!find_token(args, token)) return;

    const float scale = *args.scale;
    unsigned* latent = reinterpret_cast<unsigned*>(token.record);
    unsigned* rope = latent + latent_words;
    for (int word = lane; word < latent_words; word += lanes) {
        latent[word] = e4m3_quotients(token.latent + 2 * word, scale);  // WRITE-20
    }
    for (int word = lane; word < rope_words; word += lanes) {
        rope[word] = e4m3_quotients(token.rope + 2 * word, scale);  // WRITE-20
    }
}
