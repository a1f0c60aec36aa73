// NVIDIA's own conversions, as their headers compute them on a CPU, over arrays of `count` elements.
#include <vector_types.h>

#include <cuda_bf16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>

#include "launch.hpp"

HOST_EXPORT void f32_to_e2m1(const float* values, unsigned char* codes, long long count) {
    for (long long i = 0; i < count; ++i) codes[i] = __nv_cvt_float_to_fp4(values[i], __NV_E2M1, cudaRoundNearest);
}

HOST_EXPORT void f32_to_e4m3(const float* values, unsigned char* bytes, long long count) {
    for (long long i = 0; i < count; ++i) bytes[i] = __nv_cvt_float_to_fp8(values[i], __NV_SATFINITE, __NV_E4M3);
}

HOST_EXPORT void f32_to_bf16(const float* values, unsigned short* bits, long long count) {
    for (long long i = 0; i < count; ++i) bits[i] = __nv_bfloat16_raw(__float2bfloat16_rn(values[i])).x;
}

HOST_EXPORT void e2m1_to_f32(const unsigned char* codes, float* values, long long count) {
    for (long long i = 0; i < count; ++i) {
        values[i] = __half2float(__half(__nv_cvt_fp4_to_halfraw(codes[i], __NV_E2M1)));
    }
}

HOST_EXPORT void e4m3_to_f32(const unsigned char* bytes, float* values, long long count) {
    for (long long i = 0; i < count; ++i) {
        values[i] = __half2float(__half(__nv_cvt_fp8_to_halfraw(bytes[i], __NV_E4M3)));
    }
}
