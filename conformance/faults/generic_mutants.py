"""List mutants of gather_and_maybe_dequant_cache: one line of its sources replaced, built for the CPU, and judged."""

from __future__ import annotations

from conformance.faults.mutants import ROW, START, Mutant

SHARED = "cuda/generic_gather.cuh"
COPY = "cuda/generic_copy_gather.cu"
FP8 = "cuda/generic_fp8_gather.cu"

OWNER = "args.token_to_seq[row]"
OFFSET = "block * args.cache_block_stride + slot * args.cache_record_stride;"
COPIED = "out[pair] = record[pair];"

GENERIC_MUTANTS = (
    Mutant("generic: seq_starts ignored", ROW, START, "0;", "starts-ignored"),
    Mutant("every row of request 0", SHARED, OWNER, "0"),
    Mutant("owner of the row before", SHARED, OWNER, "args.token_to_seq[row > 0 ? row - 1 : 0]"),
    Mutant(
        "one row after num_tokens written",
        SHARED,
        "row >= args.gather.num_rows",
        "row > args.gather.num_rows",
        says="dst was written behind its T rows",
    ),
    Mutant(
        "block stride packed",
        ROW,
        "block * args.cache_block_stride",
        "block * (args.block_size * args.cache_record_stride)",
        "block-stride-packed",
    ),
    Mutant("generic: 32-bit offset", ROW, OFFSET, f"static_cast<int>({OFFSET[:-1]});"),
    Mutant(
        "every record of 576 numbers",
        COPY,
        "static_cast<int>(args.row_elements) / 2;",
        "288;",
        says="dst was written behind its T rows",
    ),
    Mutant(
        "NaN of auto made canonical",
        COPY,
        COPIED,
        "out[pair] = (record[pair] & 0x7FFFu) > 0x7F80u ? (record[pair] & 0xFFFF0000u) | 0x7FFFu : record[pair];",
        says="got 0x7FFF NaN",
    ),
    Mutant(
        "auto multiplied by scale",
        COPY,
        COPIED,
        "store_pair(row.out, 2 * pair, __uint_as_float(record[pair] << 16) * *args.scale, "
        "__uint_as_float(record[pair] & 0xFFFF0000u) * *args.scale);",
    ),
    Mutant("fp8 not multiplied by scale", FP8, "scale = *args.scale;", "scale = 1.0f;", says="scale 0x"),
    Mutant("RoPE of fp8 unscaled", FP8, "number.x * scale", "number.x * (pair < 256 ? scale : 1.0f)", says="element 5"),
    Mutant(
        "generic: product rounded to half precision",
        FP8,
        "number.x * scale",
        "__half2float(__float2half(number.x * scale))",
    ),
)
"""If a mutant has neither `fault` nor `says`, any difference of its bits is enough to detect it."""
