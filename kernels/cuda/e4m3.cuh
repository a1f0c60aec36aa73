// e4m3 bytes as numbers, two at a time.
#pragma once

#include <cuda_fp8.h>

// The low byte's number in x, the high byte's in y.
__device__ inline float2 e4m3_values(unsigned short bytes) {
    return __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(bytes, __NV_E4M3)));
}
