// The gather of nvfp4_ds_mla records into bf16 rows, SPEC.md chapters READ, PAGE and GATHER: the tuned kernel.
//
// A gather should take the time that memory takes to move 352 + 1152 bytes a row. So the loads and stores of a warp cover
// whole contiguous stretches, all loads of a warp's rows are under way before the first is needed, and numbers are
// converted by byte permutes and one bf16 multiplication. That arithmetic is the same on every architecture, and exact:
// each product of a code and a scale is a bf16 (READ-1), and a power of two moves an exponent.
//
// A warp of 32 takes kRowsOfWarp consecutive rows. Lanes share nothing, not even by shuffles, so that host/launch.hpp can
// run this source as C++: what is the same for the whole warp, each lane works out for itself.
#include <cuda_bf16.h>

#include "gather_args.cuh"
#include "nvfp4_record.cuh"

namespace tuned {

constexpr int kLanes = 32;
constexpr int kRowsOfWarp = 4;
constexpr int kCodesOfWord = 8;                                           // a lane's part of a stretch of the latent
constexpr int kStretches = kKvLoraRank / (kLanes * kCodesOfWord);
constexpr int kRopeOfLane = 8;
constexpr int kRopeLanes = kQkRopeHeadDim / kRopeOfLane;
constexpr int kFanOut = 8;

static_assert(kStretches == 2 && kScales == kStretches * 16, "scale_pair takes one scale from each half of the latent");
static_assert(kRopeLanes * kRowsOfWarp == kLanes, "the RoPE keys of a warp's rows keep all its lanes busy");
static_assert(kScaleOffset % 8 == 0 && kRopeOffset % 8 == 0, "scales and RoPE keys are loaded 8 bytes at a time");

struct Position {
    long long request;  // -1: none
    long long end;      // the first row behind the request's own
    long long column;
    long long slot;
};

// How many of `num_requests` requests begin at or before `row`, if the first `passed` do. Each round asks for seven starts
// at once, so that 256 requests take three waits for memory and not eight.
__device__ inline long long count_not_after(const int* starts, long long passed, long long num_requests, long long row) {
    long long bound = num_requests;
    while (bound - passed >= kFanOut) {
        const long long step = (bound - passed) / kFanOut;
        int steps = 0;
#pragma unroll
        for (int k = 1; k < kFanOut; ++k) steps += starts[passed + k * step - 1] <= row;
        if (steps < kFanOut - 1) bound = passed + (steps + 1) * step - 1;
        passed += steps * step;
    }
    int rest = 0;
#pragma unroll
    for (int k = 0; k < kFanOut - 1; ++k) rest += passed + k < bound && starts[passed + k] <= row;
    return passed + rest;
}

// The position of `row`, whose request comes after the first `passed` ones or is the last of them.
__device__ inline Position find(const GatherArgs& args, long long row, long long passed) {
    const int* starts = args.workspace_starts;
    const long long request = count_not_after(starts, passed, args.num_requests, row) - 1;  // GATHER-1
    Position position = {request, args.num_rows, 0, 0};
    if (request < 0) return position;
    if (request + 1 < args.num_requests) position.end = starts[request + 1];
    const long long start = args.seq_starts == nullptr ? 0 : args.seq_starts[request];  // GATHER-2, GATHER-3
    const long long token = row - starts[request] + start;  // GATHER-2
    if ((token | args.block_size) >> 32 != 0) {
        position.column = token / args.block_size;
        position.slot = token % args.block_size;
        return position;
    }
    const unsigned narrow = static_cast<unsigned>(token);  // a division of 64 bits takes several times as long
    const unsigned block_size = static_cast<unsigned>(args.block_size);
    position.column = narrow / block_size;  // PAGE-1
    position.slot = narrow % block_size;    // PAGE-1
    return position;
}

// From the position of the row before to that of `row`.
__device__ inline void advance(const GatherArgs& args, long long row, Position& position) {
    if (row >= position.end) {
        position = find(args, row, position.request + 1);
    } else if (++position.slot == args.block_size) {
        position.slot = 0;
        ++position.column;
    }
}

__device__ inline const unsigned char* record_at(const GatherArgs& args, const Position& position) {
    const long long entry = position.request * args.table_row_stride + position.column;  // GATHER-8
    const long long block = args.block_table[entry];                                     // PAGE-1
    const long long offset = block * args.cache_block_stride + position.slot * args.cache_record_stride;  // GATHER-9
    return args.src_cache + offset;  // PAGE-2
}

__device__ inline __nv_bfloat162 as_pair(unsigned bits) { return *reinterpret_cast<__nv_bfloat162*>(&bits); }
__device__ inline unsigned as_bits(__nv_bfloat162 pair) { return *reinterpret_cast<unsigned*>(&pair); }

// Two products of bf16 at once; a NaN comes out as 0x7FFF (READ-6) and a zero with the product's sign (READ-3).
__device__ inline unsigned times(unsigned pair, unsigned other) { return as_bits(__hmul2(as_pair(pair), as_pair(other))); }

// Two e4m3 numbers, in bytes 1 and 3 of a word, to two bf16. With its bits in a bf16's places, an e4m3 number is 2^-120
// times what it should be, subnormal ones too; 0x7F and 0xFF, which are then numbers like any other, become NaN.
__device__ inline unsigned bf16_of_e4m3(unsigned bytes) {
    const unsigned magnitude = bytes >> 4 & 0x07F007F0u;
    const unsigned nan = (magnitude + 0x00100010u) & 0x08000800u;  // READ-4, READ-5
    const unsigned tiny = (bytes & 0x80008000u) | magnitude | (16 * nan - (nan >> 11));
    return times(tiny, 0x7B807B80u);  // 2^120
}

// Eight e2m1 codes, the first in the lowest nibble, times a scale that stands in both halves of a word.
__device__ inline uint4 scaled(unsigned codes, unsigned scale) {
    // The bf16 of the magnitudes are 0000 3F00 3F80 3FC0 4000 4040 4080 40C0: a code's low three bits choose a byte of
    // each table, and the byte with the code's sign in its top bit is found in the codes or in the codes shifted up.
    const unsigned chosen = codes & 0x77777777u;
    const unsigned shifted = codes << 4;
    const unsigned signs03 = __byte_perm(codes, shifted, 0x1504) & 0x80808080u;  // RECORD-2, READ-3
    const unsigned signs47 = __byte_perm(codes, shifted, 0x3726) & 0x80808080u;
    const unsigned high03 = __byte_perm(0x3F3F3F00u, 0x40404040u, chosen) | signs03;
    const unsigned high47 = __byte_perm(0x3F3F3F00u, 0x40404040u, chosen >> 16) | signs47;
    const unsigned low03 = __byte_perm(0xC0800000u, 0xC0804000u, chosen);
    const unsigned low47 = __byte_perm(0xC0800000u, 0xC0804000u, chosen >> 16);
    return make_uint4(
        times(__byte_perm(low03, high03, 0x5140), scale),  // READ-1
        times(__byte_perm(low03, high03, 0x7362), scale),
        times(__byte_perm(low47, high47, 0x5140), scale),
        times(__byte_perm(low47, high47, 0x7362), scale));
}

}  // namespace tuned

extern "C" __global__ void nvfp4_gather_tuned(GatherArgs args) {
    using namespace tuned;
    const int lane = static_cast<int>(threadIdx.x);
    const long long warp = static_cast<long long>(blockIdx.x) * blockDim.y + threadIdx.y;
    const long long first = warp * kRowsOfWarp;
    if (first >= args.num_rows) return;  // GATHER-5

    Position position = find(args, first, 0);
    if (position.request < 0) return;
    const unsigned char* records[kRowsOfWarp];
#pragma unroll
    for (int i = 0; i < kRowsOfWarp; ++i) {
        // Behind the last row the last record is read once more and nothing is written.
        if (i > 0 && first + i < args.num_rows) advance(args, first + i, position);
        records[i] = record_at(args, position);
    }

    // The two scales of a lane, for its codes in either half of the latent, are the bytes j and 4 + j of an aligned eight
    // (RECORD-4): blocks s and s + 16 are 4 bytes apart, and s & 3 counts eights.
    const int block = lane / (kScaleBlock / kCodesOfWord);
    const int eight = scale_byte_of(block) / 8 * 8;
    const unsigned pick = 0x4000u + 0x1010u * (scale_byte_of(block) - eight);  // into bytes 1 and 3 of a word
    unsigned codes[kRowsOfWarp][kStretches];
    uint2 scales[kRowsOfWarp];
#pragma unroll
    for (int i = 0; i < kRowsOfWarp; ++i) {
        const unsigned* words = reinterpret_cast<const unsigned*>(records[i] + kLatentOffset) + lane;
        codes[i][0] = words[0];
        codes[i][1] = words[kLanes];
        scales[i] = *reinterpret_cast<const uint2*>(records[i] + eight);
    }
    const int rope_row = lane / kRopeLanes;
    const unsigned char* rope_record = records[0];
#pragma unroll
    for (int i = 1; i < kRowsOfWarp; ++i) rope_record = rope_row == i ? records[i] : rope_record;
    const uint2 rope = *(reinterpret_cast<const uint2*>(rope_record + kRopeOffset) + lane % kRopeLanes);  // RECORD-3

    // Nobody reads a row soon, so stores ask the caches to let go of it first.
#pragma unroll
    for (int i = 0; i < kRowsOfWarp; ++i) {
        if (first + i < args.num_rows) {  // GATHER-6
            const unsigned pair = bf16_of_e4m3(__byte_perm(scales[i].x, scales[i].y, pick));
            uint4* row = reinterpret_cast<uint4*>(args.dst + (first + i) * args.dst_row_stride) + lane;  // GATHER-8
            __stcs(row, scaled(codes[i][0], __byte_perm(pair, pair, 0x1010)));
            __stcs(row + kLanes, scaled(codes[i][1], __byte_perm(pair, pair, 0x3232)));
        }
    }
    if (first + rope_row >= args.num_rows) return;
    __nv_bfloat16* rope_key = args.dst + (first + rope_row) * args.dst_row_stride + kKvLoraRank;
    __stcs(
        reinterpret_cast<uint4*>(rope_key) + lane % kRopeLanes,
        make_uint4(  // READ-2
            bf16_of_e4m3(__byte_perm(rope.x, 0, 0x1404)),
            bf16_of_e4m3(__byte_perm(rope.x, 0, 0x3424)),
            bf16_of_e4m3(__byte_perm(rope.y, 0, 0x1404)),
            bf16_of_e4m3(__byte_perm(rope.y, 0, 0x3424))));
}
