// The CUDA intrinsics that the kernels use and NVIDIA's headers have no host version of, as ordinary C++.
#pragma once

#include <vector_types.h>

#include <cmath>
#include <cstring>

// Byte i of the result is byte `selector nibble i` of the eight bytes of a (0 to 3) and b (4 to 7).
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
    const auto chosen = [&](int i) {
        return static_cast<unsigned>(bytes >> (8 * (selector >> (4 * i) & 7)) & 0xFF) << (8 * i);
    };
    return chosen(0) | chosen(1) | chosen(2) | chosen(3);
}

// A store with a hint that nobody reads the line soon; a CPU needs no hint.
template <class T>
void __stcs(T* address, T value) {
    *address = value;
}

// Lanes run in turn, so that what the last one does comes after all that the others do.
inline void __syncwarp() {}

// Operations that round once, to nearest; without -ffp-contract=off a compiler could merge them with others.
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmul_rn(float a, float b) { return a * b; }

inline float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}
