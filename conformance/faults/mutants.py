"""List mutants of the gathers: one line of the CUDA sources replaced in a copy, built for the CPU, and judged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kernels.sources import changed_sources

PLAIN = "cuda/nvfp4_gather_plain.cu"
ROW = "cuda/gather_row.cuh"
TUNED = "cuda/nvfp4_gather_tuned.cu"
RECORD = "cuda/nvfp4_record.cuh"


@dataclass(frozen=True)
class Mutant:
    """Describe a change of a source file: `old`, which must occur once in it, becomes `new`.

    `fault` names the model that predicts the same rows, or is None.
    """

    name: str
    file: str
    old: str
    new: str
    fault: str | None = None
    says: str = ""
    """A part of the gate's message, for a mutant that no model predicts."""
    failures: int = 2
    """Number of failures to collect. A mutant that reads beyond an array needs more than others."""
    part: str = ""
    """The pytest -k expression of the tests that detect it. Empty means all tests that judge its kernel."""

    @property
    def target(self) -> str:
        """The name of the target to build from these sources, without the folder after the colon."""
        return "host" if self.file == TUNED else "host-plain"

    @property
    def sentence(self) -> str:
        """The file and the change, each side cut to 70 characters."""
        old, new = (" ".join(source.split())[:70] or "nothing" for source in (self.old, self.new))
        return f"{self.file}: {old} -> {new}"

    def write(self, folder: Path) -> Path:
        """Copy the sources into an empty folder, and apply the change.

        Returns:
            The folder.

        Raises:
            ValueError: if `old` does not occur exactly once in the file.

        """
        return changed_sources(folder, self.file, (self.old, self.new))


START = "args.seq_starts == nullptr ? 0 : args.seq_starts[owner];"
TUNED_START = "args.seq_starts == nullptr ? 0 : args.seq_starts[request];"
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
        PLAIN,
        "code.x * scale, code.y * scale",
        "code.y * scale, code.x * scale",
        "nibbles-swapped",
    ),
    Mutant("seq_starts ignored", ROW, START, "0;", "starts-ignored"),
    Mutant(
        "start rounded down to its block",
        ROW,
        "args.seq_starts[owner];",
        "args.seq_starts[owner] / args.block_size * args.block_size;",
        "start-rounded-down",
    ),
    Mutant(
        "start of the next request",
        ROW,
        "args.seq_starts[owner];",
        "args.seq_starts[owner + 1];",
        "start-of-the-next-request",
        failures=8,
    ),
    Mutant(
        "first request on equal starts",
        ROW,
        "    return first - 1;",
        "    while (first > 1 && workspace_starts[first - 2] == workspace_starts[first - 1]) --first;\n"
        "    return first - 1;",
        "first-owner",
    ),
    Mutant(
        "block stride taken as block_size * 352",
        ROW,
        "block * args.cache_block_stride",
        "block * (args.block_size * 352)",
        "block-stride-packed",
        part="strided",
    ),
    Mutant(
        "record stride taken as 352",
        ROW,
        "slot * args.cache_record_stride",
        "slot * 352",
        "record-stride-packed",
        part="strided",
    ),
    Mutant(
        "table stride taken as used columns",
        ROW,
        "owner * args.table_row_stride",
        "owner * args.table_columns",
        "table-stride-is-its-columns",
        part="strided",
    ),
    Mutant(
        "32-bit offset",
        ROW,
        "block * args.cache_block_stride + slot * args.cache_record_stride;",
        "static_cast<int>(block * args.cache_block_stride + slot * args.cache_record_stride);",
        "offset-in-32-bits",
        part="two_gib",
    ),
    Mutant(
        "-0 written as +0",
        ROW,
        "__float2bfloat16_rn(value)",
        "__float2bfloat16_rn(value + 0.0f)",
        "negative-zero-lost",
    ),
    Mutant("last row not written", ROW, "row >= args.num_rows)", "row >= args.num_rows - 1)", "last-row-not-written"),
    Mutant(
        "one column after 576 written",
        PLAIN,
        "pair < kQkRopeHeadDim / 2",
        "pair <= kQkRopeHeadDim / 2",
        says="dst: written outside its elements: row 16 column 0 (T is 16)",
    ),
    Mutant(
        "scale NaN read as 448",
        PLAIN,
        f"e4m3_value({SCALE})",
        f"e4m3_value({SCALE} % 128 == 127 ? {SCALE} - 1 : {SCALE})",
        "scale-nan-is-448",
    ),
    # The same changes, and others, in the tuned kernel, whose code differs.
    Mutant(
        "tuned: nibbles swapped",
        TUNED,
        "chosen = codes & 0x77777777u;\n    const unsigned shifted = codes << 4;",
        "swapped = (codes >> 4 & 0x0F0F0F0Fu) | (codes << 4 & 0xF0F0F0F0u);\n"
        "    const unsigned chosen = swapped & 0x77777777u;\n    codes = swapped;\n"
        "    const unsigned shifted = codes << 4;",
        "nibbles-swapped",
    ),
    Mutant("tuned: seq_starts ignored", TUNED, TUNED_START, "0;", "starts-ignored"),
    Mutant(
        "tuned: start rounded down to its block",
        TUNED,
        "args.seq_starts[request];",
        "args.seq_starts[request] / args.block_size * args.block_size;",
        "start-rounded-down",
    ),
    Mutant(
        "tuned: start of the next request",
        TUNED,
        "args.seq_starts[request];",
        "args.seq_starts[request + 1];",
        "start-of-the-next-request",
        failures=8,
    ),
    Mutant(
        "tuned: block stride taken as block_size * 352",
        TUNED,
        "block * args.cache_block_stride",
        "block * (args.block_size * kRecordBytes)",
        "block-stride-packed",
        part="strided",
    ),
    Mutant(
        "tuned: table stride taken as used columns",
        TUNED,
        "position.request * args.table_row_stride",
        "position.request * args.table_columns",
        "table-stride-is-its-columns",
        part="strided",
    ),
    Mutant(
        "tuned: 32-bit offset",
        TUNED,
        "block * args.cache_block_stride + position.slot * args.cache_record_stride;",
        "static_cast<int>(block * args.cache_block_stride + position.slot * args.cache_record_stride);",
        "offset-in-32-bits",
        part="two_gib",
    ),
    Mutant(
        "tuned: last row not written",
        TUNED,
        "(GatherArgs args) {\n    using namespace tuned;",
        "(GatherArgs args) {\n    using namespace tuned;\n    --args.num_rows;",
        "last-row-not-written",
    ),
    Mutant(
        "tuned: one row after T written",
        TUNED,
        "if (first + i < args.num_rows) {  // GATHER-6",
        "if (first + i <= args.num_rows) {",
        says="dst: written outside its elements: row",
    ),
    Mutant(
        "tuned: scale NaN read as 480",
        TUNED,
        "(magnitude + 0x00100010u) & 0x08000800u",
        "0u * magnitude",
        says="got 0x43F0 +480",
    ),
    Mutant(
        "tuned: scales of the two halves exchanged",
        TUNED,
        "0x4000u + 0x1010u",
        "0x0040u + 0x1010u",
        says="scale byte",
    ),
    Mutant(
        "tuned: the second request of a warp not looked for",
        TUNED,
        "if (row >= position.end) {",
        "if (false) {",
        says="differs",
    ),
    Mutant(
        "tuned: the search for the owner skips one of seven",
        TUNED,
        "k = 1; k < kFanOut; ++k) steps",
        "k = 2; k < kFanOut; ++k) steps",
        says="differs",
    ),
    Mutant(
        "tuned: a block's end not noticed",
        TUNED,
        "} else if (++position.slot == args.block_size) {",
        "} else if (++position.slot > args.block_size) {",
        says="differs",
    ),
)
"""Mutants that every version of this suite must detect."""

TWIN = "cuda/fp8_gather.cu"

TWIN_MUTANTS = (
    Mutant("scale of the next tile", TWIN, "scales[2 * pair / kTile]", "scales[(2 * pair / kTile + 1) % 4]"),
    Mutant("tiles of 64", TWIN, "scales[2 * pair / kTile]", "scales[2 * pair / 64 % 4]"),
    Mutant("second of a pair unscaled", TWIN, "number.y * scale", "number.y"),
    Mutant(
        "product rounded to half precision", TWIN, "number.x * scale", "__half2float(__float2half(number.x * scale))"
    ),
    Mutant("RoPE two bytes off", TWIN, "out[pair] = rope[pair];", "out[pair] = rope[pair] >> 16 | rope[pair] << 16;"),
    Mutant("RoPE through a number", TWIN, "out[pair] = rope[pair];", "out[pair] = rope[pair] & 0xFFC0FFFFu;"),
    Mutant("the last pair left out", TWIN, "pair < kQkRopeHeadDim / 2;", "pair < kQkRopeHeadDim / 2 - 1;"),
    Mutant("twin: seq_starts ignored", ROW, START, "0;", "starts-ignored"),
    Mutant("twin: block stride packed", ROW, "block * args.cache_block_stride", "block * args.block_size * 656"),
)
"""Mutants of the gather of fp8_ds_mla. If a mutant has no `fault`, any difference of its bits is enough."""
