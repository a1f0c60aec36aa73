// The gather of nvfp4_ds_mla records into bf16 rows, SPEC.md chapters READ, PAGE and GATHER: the plain kernel.
//
// It is the readable one. A warp takes a row, a lane takes bytes of the record, NVIDIA's own headers convert, and
// nothing is shared between lanes. NVRTC, nvcc and, with host/launch.hpp, a C++17 compiler build it unchanged. A line
// that carries a rule of SPEC.md cites the clause, and the suite's self-check breaks those lines one at a time.
#include <cuda_bf16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

#include "gather_row.cuh"
#include "nvfp4_record.cuh"

__device__ inline float e4m3_value(unsigned char byte) {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(byte, __NV_E4M3)));
}

// The low nibble's value in x, the high nibble's in y.
__device__ inline float2 e2m1_values(unsigned char byte) {
    return __half22float2(__half2(__nv_cvt_fp4x2_to_halfraw2(byte, __NV_E2M1)));
}

extern "C" __global__ void nvfp4_gather_plain(GatherArgs args) {
    const int lane = static_cast<int>(threadIdx.x);
    const int lanes = static_cast<int>(blockDim.x);
    Row row;
    if (!find_row(args, row)) return;
    const unsigned char* record = row.record;

    for (int byte = lane; byte < kLatentBytes; byte += lanes) {
        const float scale = e4m3_value(record[scale_byte_of(byte / kScaleBlockBytes)]);  // READ-4
        const float2 code = e2m1_values(record[kLatentOffset + byte]);
        store_pair(row.out, 2 * byte, code.x * scale, code.y * scale);  // RECORD-2, READ-1
    }
    for (int pair = lane; pair < kQkRopeHeadDim / 2; pair += lanes) {  // GATHER-6
        const unsigned char* rope = record + kRopeOffset + 2 * pair;  // RECORD-3
        store_pair(row.out, kKvLoraRank + 2 * pair, e4m3_value(rope[0]), e4m3_value(rope[1]));  // READ-2
    }
}
