"""List the flags of vectors: the kind of defect that a vector looks for, its effect, and reports of it."""

from __future__ import annotations

from dataclasses import dataclass

VLLM = "https://github.com/vllm-project/vllm/issues/"


def vllm(*numbers: int) -> tuple[str, ...]:
    """Return links to issues of vLLM."""
    return tuple(f"{VLLM}{number}" for number in numbers)


@dataclass(frozen=True)
class Flag:
    """Describe a kind of defect: a key of KINDS, its effect, and links to reports or clauses."""

    kind: str
    effect: str
    links: tuple[str, ...]


KINDS = {
    "basic": "what any implementation gets right",
    "number": "a right place read or made into a wrong number",
    "place": "a right number from, or at, a wrong place",
    "write": "memory that is not to be written",
    "crash": "an error, or an access out of bounds, where there is work or none to do",
    "waste": "a right result in more steps than there are to be",
    "refusal": "a call or configuration accepted that cannot work, or refused that can",
}

FLAGS = {
    "Basic": Flag("basic", "Nothing else can be trusted.", ("SPEC.md GATHER-2", "SPEC.md WRITE-1")),
    "EveryCode": Flag("number", "Some numbers of a format are wrong, and rarely met.", ("SPEC.md SCALAR-1",)),
    "TieToEven": Flag(
        "number",
        "A tie is rounded away from zero, or to zero: an error of one unit.",
        ("https://github.com/ROCm/aiter/issues/3992",),
    ),
    "Saturation": Flag(
        "number",
        "A number beyond the range becomes NaN or an infinity, or wraps, instead of the largest.",
        ("SPEC.md SCALAR-5",),
    ),
    "NanEncoded": Flag("number", "A NaN becomes a finite number, or keeps a sign or payload.", ("SPEC.md SCALAR-6",)),
    "NegativeZero": Flag("number", "The sign of a zero is lost, or given to the wrong one.", ("SPEC.md READ-3",)),
    "Subnormal": Flag("number", "Subnormal numbers are flushed to zero.", ("SPEC.md SCALAR-4", "SPEC.md TWIN-2")),
    "ScalePermutation": Flag(
        "place",
        "Scales are read or written in the order of blocks: 30 of 32 blocks have another one's.",
        vllm(50084, 55976),
    ),
    "NibbleOrder": Flag("place", "Even and odd latent elements are exchanged.", vllm(50085)),
    "NanScale": Flag("number", "A NaN scale beside code 0 reads as 0, or as a finite number.", ("SPEC.md READ-4",)),
    "RopeNan": Flag("number", "A NaN of the RoPE key reads as 480, or with a sign.", ("SPEC.md READ-5",)),
    "RopeUnscaled": Flag("number", "The RoPE key is scaled, or its scales are missed.", ("SPEC.md READ-2",)),
    "PowerOfTwoScale": Flag("number", "A reader keeps the exponent of a scale alone: 0.75 is 0.5.", vllm(49435)),
    "TwoRoundings": Flag(
        "number", "A product is rounded once, in a wider type, where it is to be rounded twice.", ("SPEC.md TWIN-2",)
    ),
    "InfiniteProduct": Flag("number", "Infinities and overflow become NaN or the largest.", ("SPEC.md TWIN-4",)),
    "CopiedBits": Flag(
        "number",
        "What is to be copied goes through a conversion, which changes NaN and subnormals.",
        ("SPEC.md TWIN-3",),
    ),
    "TensorScale": Flag("number", "The tensor's scale misses the RoPE elements, or is inverted.", ("SPEC.md TWIN-9",)),
    "UnalignedStart": Flag(
        "place", "A start is rounded down to its block: rows of earlier tokens.", (*vllm(46114), "SPEC.md GATHER-2")
    ),
    "LastColumn": Flag("crash", "The walk goes past a table row, where anything may stand.", vllm(27909)),
    "FarStart": Flag("place", "One start is taken for all requests, or clamped to the others'.", vllm(45462)),
    "EmptyRequest": Flag(
        "place", "A request without rows takes a row from the one that shares its start.", ("SPEC.md GATHER-1",)
    ),
    "StaleEntries": Flag("crash", "What no row needs is read and heeded.", ("SPEC.md PAGE-3", "SPEC.md GATHER-4")),
    "NothingToDo": Flag(
        "crash",
        "An empty grid is launched, or a division by zero made.",
        ("https://github.com/sgl-project/sglang/issues/34455",),
    ),
    "RowsBeyondLengths": Flag(
        "write",
        "T is taken from the lengths, and not from dst.",
        ("https://github.com/sgl-project/sglang/issues/34455",),
    ),
    "Strides": Flag("place", "Blocks, records or rows are taken to be packed.", vllm(37032, 37090, 45111)),
    "SharedBlocks": Flag("place", "Requests are taken to own their blocks.", ("SPEC.md PAGE-5",)),
    "ForeignNan": Flag(
        "number",
        "A neighbour's NaN reaches a row through a product with zero.",
        (
            "https://github.com/flashinfer-ai/flashinfer/issues/941",
            "https://github.com/sgl-project/sglang/issues/32477",
        ),
    ),
    "BlockSize": Flag("place", "A block size is taken for a power of two, or for the usual one.", ("SPEC.md PAGE-1",)),
    "Malformed": Flag(
        "refusal", "A malformed call is served, out of bounds.", ("SPEC.md GATHER-11", "SPEC.md WRITE-9")
    ),
    "PaddingSlot": Flag(
        "write",
        "A token with slot -1 is written, to the last record or to slot 0.",
        (
            *vllm(43810),
            "https://github.com/vllm-project/vllm-ascend/issues/15417",
            "https://github.com/ROCm/ATOM/issues/2008",
        ),
    ),
    "WideSlot": Flag("write", "A slot is cut to 32 bits.", ("SPEC.md WRITE-7",)),
    "ScaleFloor": Flag("number", "A block of tiny numbers has a scale of 0, and an infinite reciprocal.", vllm(55538)),
    "ScaleRounding": Flag(
        "number", "A scale is rounded to nearest by one, up by another writer.", ("SPEC.md WRITE-12",)
    ),
    "Reciprocal": Flag(
        "number",
        "Dividing by a scale and multiplying by its reciprocal give different codes.",
        ("https://github.com/flashinfer-ai/flashinfer/issues/5119", *vllm(46031)),
    ),
    "AmaxNan": Flag("number", "A NaN or infinity in a block spoils, or does not, its scale.", ("SPEC.md WRITE-10",)),
    "TileScale": Flag(
        "number", "A tile's scale is a power of two from one, arbitrary from another writer.", vllm(49435)
    ),
    "NoWeight": Flag(
        "number", "0 * NaN is NaN: a partial without weight contributes what stale memory holds.", vllm(27491, 15492)
    ),
    "EqualWeights": Flag("number", "The plainest merge is off.", ("SPEC.md MERGE-1",)),
    "Overflow": Flag(
        "number", "A number, an exponential or a sum overflows, or a weight underflows.", ("SPEC.md MERGE-1",)
    ),
    "Cancellation": Flag("number", "An error small for the terms is large for their sum.", ("SPEC.md MERGE-1",)),
    "SumToZero": Flag("number", "An LSE near 0 is lost among the terms that give it.", ("SPEC.md MERGE-2",)),
    "InPlace": Flag("write", "A result is written over an input that is still to be read.", ("SPEC.md MERGE-6",)),
    "UnalignedBudget": Flag("place", "Cuts leave block boundaries, and starts with them.", vllm(41229, 46114)),
    "NoContext": Flag("crash", "A batch, or a request, without context is planned for.", vllm(53603)),
    "Continuation": Flag("place", "A continued request is taken for a new one, or beyond it.", vllm(49294)),
    "ClosedChunk": Flag("place", "A chunk reaches over a request without context.", ("SPEC.md PLAN-6",)),
    "LargestPiece": Flag("waste", "A piece is smaller, or larger, than there is room for.", ("SPEC.md PLAN-3",)),
    "PaddedRows": Flag("place", "Rows are counted as tokens, or the ranks' padding is left out.", ("SPEC.md SHARD-2",)),
    "ShortRank": Flag("place", "A rank that holds fewer tokens gathers fewer rows.", vllm(28514)),
    "LocalStart": Flag("place", "A start counts tokens where it is to count a rank's rows.", ("SPEC.md SHARD-7",)),
    "TooFewRows": Flag("refusal", "A workspace in which no request can be cut is accepted.", ("SPEC.md PLAN-11",)),
    "WorkspaceSize": Flag(
        "waste", "A workspace is beyond its caps, or below a block.", (*vllm(25290), "SPEC.md PLAN-21")
    ),
    "LateRefusal": Flag(
        "refusal", "A configuration starts that fails on the first request with context.", ("SPEC.md SERVE-9",)
    ),
    "Starts": Flag("refusal", "A configuration that works is refused.", ("SPEC.md SERVE-10",)),
}
