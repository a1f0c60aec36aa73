"""Refuse malformed calls of merge_attn_states (SPEC.md, contract).

The values in the arrays are not read, since the arrays may be on a device.
"""

from dataclasses import dataclass

from kernels.argument_checks import check_alignment, check_device, check_writable, parts_overlap, refuse, view
from kernels.arrays import StridedArray
from kernels.layout import BF16

ELEMENTS = (*BF16, "float16", "float32")


@dataclass(frozen=True)
class MergeCall:
    """Hold the arguments of a well-formed merge as views. Shapes and units are those of SPEC.md's table."""

    output: StridedArray
    prefix_output: StridedArray
    prefix_lse: StridedArray
    suffix_output: StridedArray
    suffix_lse: StridedArray
    output_lse: StridedArray | None = None

    @property
    def rows(self) -> int:
        """The number of rows to merge, T * H. Each head of a token is one row."""
        return self.output.shape[0] * self.output.shape[1]


def check_merge(
    output: object,
    prefix_output: object,
    prefix_lse: object,
    suffix_output: object,
    suffix_lse: object,
    output_lse: object = None,
) -> MergeCall:
    """Return the arguments of merge_attn_states as views. kernels.ops has their dtypes and shapes.

    Returns:
        The call, whose values in arrays are not checked.

    Raises:
        ValueError: If the call is malformed (MERGE-10), or an address or stride is no multiple of an element. Names
            argument, value and expected value.

    """
    merged = view("output", output, ELEMENTS, (None, None, None))
    elements = BF16 if merged.dtype in BF16 else (merged.dtype,)
    outputs = {"output": merged}
    for argument, value in (("prefix_output", prefix_output), ("suffix_output", suffix_output)):
        outputs[argument] = view(argument, value, elements, (None, None, None))
    lses = {}
    for argument, value in (("prefix_lse", prefix_lse), ("suffix_lse", suffix_lse), ("output_lse", output_lse)):
        if argument != "output_lse" or value is not None:
            lses[argument] = view(argument, value, ("float32",), (None, None), any_stride=True)
    check_device({**outputs, **lses})
    tokens, heads, size = merged.shape
    if heads < 1 or size < 1:
        refuse("output", f"shape {merged.shape}", "at least one head of at least one element")
    for argument, array in outputs.items():
        if array.shape != merged.shape:
            refuse(argument, f"shape {array.shape}", f"{merged.shape}, that of output")
    for argument, array in lses.items():
        if array.shape != (heads, tokens):
            refuse(argument, f"shape {array.shape}", f"{(heads, tokens)}, a number for each head and token of output")
    for argument, array in {**outputs, **lses}.items():
        check_alignment(argument, array, array.itemsize, None)
    _check_output("output", merged, merged.shape[2] * merged.itemsize)
    if "output_lse" in lses:
        _check_output("output_lse", lses["output_lse"], lses["output_lse"].itemsize)
    return MergeCall(**outputs, **lses)


def _check_output(argument: str, array: StridedArray, nbytes: int) -> None:
    check_writable(argument, array)
    if parts_overlap(array, nbytes):
        refuse(argument, f"strides of {array.strides} bytes for shape {array.shape}", "elements that do not overlap")
