// The writer of nvfp4_ds_mla records, SPEC.md chapter WRITE. A lane takes a latent block, and so knows its amax.
#include "amax.cuh"
#include "mla_write.cuh"
#include "nvfp4_record.cuh"
#include "quantization.cuh"

namespace nvfp4_ds_mla {

constexpr int kPairsOfBlock = kScaleBlock / 2;
constexpr int kPairsOfWord = 4;
constexpr float kSmallestScale = 1.0f / 512;  // 2^-9
constexpr float kSixth = 1.0f / 6.0f;         // fl(1/6)
constexpr unsigned char kLargestByte = 0x7E;

static_assert(kPairsOfBlock % kPairsOfWord == 0, "the codes of a block are stored a word at a time");

__device__ inline float e4m3_value(unsigned char byte) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3)));
}

__device__ inline float wanted_scale(float amax) {
    const float sixth = kSixthMultiplied ? __fmul_rn(amax, kSixth) : __fdiv_rn(amax, 6.0f);  // WRITE-11
    return sixth < kSmallestScale ? kSmallestScale : sixth;  // WRITE-11: a NaN is not below, and stays
}

__device__ inline unsigned char scale_byte_for(float wanted) {
    const unsigned char nearest = __nv_cvt_float_to_fp8(wanted, __NV_SATFINITE, __NV_E4M3);  // WRITE-12
    const bool below = nearest < kLargestByte && e4m3_value(nearest) < wanted;
    return kScaleUp && below ? nearest + 1 : nearest;  // WRITE-12
}

// The codes of two elements under the scale q, the first in the low nibble (SCALAR-2, SCALAR-3).
__device__ inline unsigned codes_of(unsigned pair, float q, float reciprocal) {
    const float2 x = widened(pair);
    const float2 products = make_float2(__fmul_rn(x.x, reciprocal), __fmul_rn(x.y, reciprocal));
    const float2 normalised = kNormalisedByDivision ? quotients(x, q) : products;  // WRITE-13
    return __nv_cvt_float2_to_fp4x2(normalised, __NV_E2M1, cudaRoundNearest);
}

__device__ inline void write_block(const Token& token, int block) {
    unsigned pairs[kPairsOfBlock];
#pragma unroll
    for (int i = 0; i < kPairsOfBlock; ++i) pairs[i] = token.latent[block * kPairsOfBlock + i];

    const unsigned char scale = scale_byte_for(wanted_scale(amax_of(pairs, kPairsOfBlock)));
    token.record[scale_byte_of(block)] = scale;  // WRITE-15
    const float q = e4m3_value(scale);
    const float reciprocal = __fdiv_rn(1.0f, q);  // WRITE-13

    unsigned* codes = reinterpret_cast<unsigned*>(token.record + kLatentOffset + block * kScaleBlockBytes);
#pragma unroll
    for (int word = 0; word < kPairsOfBlock / kPairsOfWord; ++word) {
        unsigned bytes = 0;
#pragma unroll
        for (int i = 0; i < kPairsOfWord; ++i) {
            bytes |= codes_of(pairs[word * kPairsOfWord + i], q, reciprocal) << (8 * i);  // RECORD-2
        }
        codes[word] = bytes;
    }
}

}  // namespace nvfp4_ds_mla

extern "C" __global__ void nvfp4_ds_mla_write(WriteArgs args) {
    const int lane = static_cast<int>(threadIdx.x);
    const int lanes = static_cast<int>(blockDim.x);
    Token token;
    if (!find_token(args, token)) return;

    for (int block = lane; block < kScales; block += lanes) nvfp4_ds_mla::write_block(token, block);

    unsigned short* rope = reinterpret_cast<unsigned short*>(token.record + kRopeOffset);  // RECORD-3
    for (int pair = lane; pair < kQkRopeHeadDim / 2; pair += lanes) {
        rope[pair] = static_cast<unsigned short>(e4m3_pair(widened(token.rope[pair])));  // WRITE-14
    }
}
