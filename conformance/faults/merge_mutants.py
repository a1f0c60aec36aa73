"""List mutants of merge_attn_states: one line of its sources replaced, built for the CPU, and judged."""

from __future__ import annotations

from conformance.faults.mutants import Mutant

MERGE = "cuda/merge.cuh"

PART = "share > 0.0f ? number * share : 0.0f"
LARGER = "prefix_lse > suffix_lse ? prefix_lse : suffix_lse;"
BEGIN = "void merge(const MergeArgs& args) {"
PACKED = "void merge(MergeArgs args) {\n    "

MERGE_MUTANTS = (
    Mutant(
        "+inf taken as weight",
        MERGE,
        "return lse == infinity() ? -infinity() : lse;",
        "return lse;",
        says="s inf, P 0.5",
    ),
    Mutant("two without weight give NaN", MERGE, PART, "share == 0.0f ? 0.0f : number * share", says="p -inf, s -inf"),
    Mutant(
        "what has no weight is multiplied by 0", MERGE, PART, "share >= 0.0f ? number * share : 0.0f", says="0x7FFF nan"
    ),
    Mutant(
        "prefix handed through without any weight",
        MERGE,
        "prefix_weight / total;",
        "most == -infinity() ? 1.0f : prefix_weight / total;",
        says="p -inf, s -inf",
    ),
    Mutant("no largest LSE taken out", MERGE, LARGER, "0.0f;", says="output_lse: expected -inf"),
    Mutant(
        "largest of LSEs that do not count",
        MERGE,
        LARGER,
        "fmaxf(*lse_of(args.prefix, token, head), suffix_lse);",
        says="p inf, s 0",
    ),
    Mutant(
        "head stride taken as D",
        MERGE,
        BEGIN,
        PACKED + "args.prefix.output_head_stride = args.head_size;",
        says="prefix_output: inner=",
    ),
    Mutant(
        "LSE row stride taken as T",
        MERGE,
        BEGIN,
        PACKED + "args.suffix.lse_head_stride = args.num_tokens;",
        says="LSEs differ",
    ),
    Mutant("output_lse never written", MERGE, "args.merged.lse == nullptr ||", "true ||", says="output_lse: expected"),
    Mutant("output_lse without the sum", MERGE, "most + logf(total)", "most", says="output_lse: expected"),
    Mutant("output_lse written by the first lane", MERGE, "lane != lanes - 1", "lane != 0", says="output_lse in"),
    Mutant(
        "one element after D written",
        MERGE,
        "i < args.head_size;",
        "i <= args.head_size;",
        says="output: written outside its elements",
    ),
    Mutant("bf16 truncated", MERGE, "__float2bfloat16_rn(number)", "__float2bfloat16_rz(number)", says="(bf16)"),
)
"""The `says` of each is a part of the gate's message."""
