// The nvfp4_ds_mla record, SPEC.md chapter RECORD. Every number is a macro that kernels/layout.py defines.
#pragma once

#ifndef NVFP4_RECORD_BYTES
#error "the record layout is missing: pass the -D options of kernels/layout.py"
#endif

constexpr int kRecordBytes = NVFP4_RECORD_BYTES;
constexpr int kLatentOffset = NVFP4_LATENT_OFFSET;
constexpr int kRopeOffset = NVFP4_ROPE_OFFSET;
constexpr int kScaleOffset = NVFP4_SCALE_OFFSET;
constexpr int kKvLoraRank = NVFP4_KV_LORA_RANK;
constexpr int kQkRopeHeadDim = NVFP4_QK_ROPE_HEAD_DIM;
constexpr int kScaleBlock = NVFP4_SCALE_BLOCK;
constexpr int kRowElements = NVFP4_ROW_ELEMENTS;

constexpr int kLatentBytes = kKvLoraRank / 2;
constexpr int kScaleBlockBytes = kScaleBlock / 2;
constexpr int kScales = kKvLoraRank / kScaleBlock;

static_assert(kKvLoraRank % kScaleBlock == 0 && kScaleBlock % 2 == 0, "no byte straddles two scale blocks");
static_assert(kQkRopeHeadDim % 2 == 0, "RoPE elements are stored in pairs");
static_assert(kLatentOffset == 0, "the record starts with the latent");
static_assert(kRopeOffset == kLatentOffset + kLatentBytes, "the RoPE key follows the latent");
static_assert(kScaleOffset == kRopeOffset + kQkRopeHeadDim, "the scales follow the RoPE key");
static_assert(kRecordBytes == kScaleOffset + kScales, "the scales end the record");
static_assert(kRowElements == kKvLoraRank + kQkRopeHeadDim, "a row holds latent and RoPE key, nothing else");
static_assert(kScales == 32, "scale_byte_of transposes an 8 x 4 matrix");

// The byte of a record that holds the scale of latent block `block`, 0 to 31 (RECORD-4).
__host__ __device__ inline int scale_byte_of(int block) {
    return kScaleOffset + 8 * (block & 3) + (block >> 2);  // RECORD-4
}
