// How a writer rounds, where SPEC.md's chapter WRITE leaves a choice. Every macro is 0 or 1: kernels/quantization.py.
#pragma once

#ifndef MLA_NAN_SPREADS
#error "the quantization is missing: pass the -D options of kernels/quantization.py"
#endif

constexpr bool kNanSpreads = MLA_NAN_SPREADS;                       // WRITE-10; else a NaN is ignored
constexpr bool kSixthMultiplied = MLA_SIXTH_MULTIPLIED;             // WRITE-11; else divided
constexpr bool kScaleUp = MLA_SCALE_UP;                             // WRITE-12; else nearest
constexpr bool kNormalisedByDivision = MLA_NORMALISATION_DIVISION;  // WRITE-13; else by the reciprocal
constexpr bool kTilePowerOfTwo = MLA_TILE_POWER_OF_TWO;             // WRITE-17; else arbitrary
