"""Faults in the CUDA sources themselves: one line of a copy replaced, built for the CPU, and judged as a target."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from kernels.sources import DEFAULT_ROOT

GATHER = "cuda/nvfp4_gather.cu"
RECORD = "cuda/nvfp4_record.cuh"


@dataclass(frozen=True)
class Mutant:
    """A source file in which `old`, which stands there once, becomes `new`; `fault` names the model that equals it."""

    name: str
    file: str
    old: str
    new: str
    fault: str | None = None
    says: str = ""
    """What the gate says of it, where no model predicts it."""

    def write(self, folder: Path) -> Path:
        """Copy the sources into an empty folder, with the change made; ValueError unless it applies exactly once."""
        for part in ("cuda", "host"):
            shutil.copytree(DEFAULT_ROOT / part, folder / part)
        path = folder / self.file
        source = path.read_text()
        if source.count(self.old) != 1:
            raise ValueError(f"mutant {self.name}: {self.old!r} stands {source.count(self.old)} times in {self.file}")
        path.write_text(source.replace(self.old, self.new))
        return folder


START = "args.seq_starts == nullptr ? 0 : args.seq_starts[owner];"
SCALE = "record[scale_byte_of(byte / kScaleBlockBytes)]"

MUTANTS = (
    Mutant(
        "scales in element order",
        RECORD,
        "8 * (block & 3) + (block >> 2);",
        "block;",
        "scales-unpermuted",
    ),
    Mutant(
        "scales through the inverse permutation",
        RECORD,
        "8 * (block & 3) + (block >> 2);",
        "4 * (block & 7) + (block >> 3);",
        "scales-inverse-permuted",
    ),
    Mutant(
        "nibbles swapped",
        GATHER,
        "code.x * scale, code.y * scale",
        "code.y * scale, code.x * scale",
        "nibbles-swapped",
    ),
    Mutant("seq_starts ignored", GATHER, START, "0;", "starts-ignored"),
    Mutant(
        "start rounded down to its block",
        GATHER,
        "args.seq_starts[owner];",
        "args.seq_starts[owner] / args.block_size * args.block_size;",
        "start-rounded-down",
    ),
    Mutant(
        "start of the next request",
        GATHER,
        "args.seq_starts[owner];",
        "args.seq_starts[owner + 1];",
        "start-of-the-next-request",
    ),
    Mutant(
        "first request on equal starts",
        GATHER,
        "    return first - 1;",
        "    while (first > 1 && workspace_starts[first - 2] == workspace_starts[first - 1]) --first;\n"
        "    return first - 1;",
        "first-owner",
    ),
    Mutant(
        "block stride taken as block_size * 352",
        GATHER,
        "block * args.cache_block_stride",
        "block * (args.block_size * kRecordBytes)",
        "block-stride-packed",
    ),
    Mutant(
        "record stride taken as 352",
        GATHER,
        "slot * args.cache_record_stride",
        "slot * kRecordBytes",
        "record-stride-packed",
    ),
    Mutant(
        "table stride taken as used columns",
        GATHER,
        "owner * args.table_row_stride",
        "owner * args.table_columns",
        "table-stride-is-its-columns",
    ),
    Mutant(
        "32-bit offset",
        GATHER,
        "block * args.cache_block_stride + slot * args.cache_record_stride;",
        "static_cast<int>(block * args.cache_block_stride + slot * args.cache_record_stride);",
        "offset-in-32-bits",
    ),
    Mutant(
        "-0 written as +0",
        GATHER,
        "__float2bfloat16_rn(value)",
        "__float2bfloat16_rn(value + 0.0f)",
        "negative-zero-lost",
    ),
    Mutant(
        "last row not written", GATHER, "row >= args.num_rows)", "row >= args.num_rows - 1)", "last-row-not-written"
    ),
    Mutant(
        "one column after 576 written",
        GATHER,
        "pair < kQkRopeHeadDim / 2",
        "pair <= kQkRopeHeadDim / 2",
        says="dst: written outside its elements: row 16 column 0 (T is 16)",
    ),
    Mutant(
        "scale NaN read as 448",
        GATHER,
        f"e4m3_value({SCALE})",
        f"e4m3_value({SCALE} % 128 == 127 ? {SCALE} - 1 : {SCALE})",
        "scale-nan-is-448",
    ),
)
"""Those which every version of this suite must see."""
