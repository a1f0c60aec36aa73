"""List mutants of the writers: one line of the CUDA sources replaced in a copy, built for the CPU, and judged."""

from __future__ import annotations

from conformance.faults.mutants import Mutant

NVFP4 = "cuda/nvfp4_ds_mla_write.cu"
FP8_DS_MLA = "cuda/fp8_ds_mla_write.cu"
SHARED = "cuda/mla_write.cuh"
AMAX = "cuda/amax.cuh"

WRITE_MUTANTS = (
    Mutant(
        "division instead of the reciprocal",
        NVFP4,
        "kNormalisedByDivision ? quotients(x, q) : products;",
        "quotients(x, q);",
        says="exactly what profile flashmla writes",
    ),
    Mutant(
        "scales rounded up",
        NVFP4,
        "kScaleUp && below",
        "below",
        says="exactly what profile vllm-03b60164 writes",
    ),
    Mutant(
        "no floor under the scale",
        NVFP4,
        "sixth < kSmallestScale ? kSmallestScale : sixth;",
        "sixth;",
        says="exactly what profile vllm-0.33 writes with floor none",
    ),
    Mutant(
        "NaN let into amax",
        AMAX,
        "kNanSpreads || magnitude <= kBf16Infinity;",
        "true;",
        says="exactly what profile vllm-0.33 writes with nan spreads",
    ),
    Mutant(
        "RoPE divided by scale",
        NVFP4,
        "e4m3_pair(widened(token.rope[pair]))",
        "e4m3_pair(quotients(widened(token.rope[pair]), *args.scale))",
        says="exactly what profile vllm-0.33 writes with rope divided by scale",
    ),
    Mutant(
        "slot -1 not skipped",
        SHARED,
        "if (slot < 0) return false;",
        "if (slot < -1) return false;",
        says="kv_cache: written outside its elements",
    ),
    Mutant(
        "slots of 32 bits",
        SHARED,
        "const long long slot = args.slot_mapping[number];",
        "const int slot = static_cast<int>(args.slot_mapping[number]);",
        says="to which no token is written",
        part="negative_slots",
    ),
    Mutant(
        "one token more than slot_mapping has",
        SHARED,
        "number >= args.num_tokens",
        "number > args.num_tokens",
        says="records differ",
    ),
    Mutant(
        "tile scale the power of two below",
        FP8_DS_MLA,
        "(__float_as_uint(x) + 0x007FFFFFu) & 0x7F800000u",
        "__float_as_uint(x) & 0x7F800000u",
        says="element ",
    ),
)
"""The `says` of each names the profile or the trait that the faulty writer has, as a user reads it."""
