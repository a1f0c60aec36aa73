"""Merge two partial results of attention into one (SPEC.md MERGE, and its contract)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from reference.contract import rows_overlap
from reference.scalars import bf16_from_f32, f32_from_bf16

Array = npt.NDArray[Any]
Reals = npt.NDArray[np.floating[Any]]

BF16 = np.dtype(np.uint16)
OUTPUTS = (BF16, np.dtype(np.float16), np.dtype(np.float32))
"""The element types of an output: uint16 encodings of bf16, binary16 or binary32."""


class Partial(NamedTuple):
    """Hold attention over a part of the keys: output [T, H, D] and LSE [H, T], both of one floating type."""

    output: Reals
    lse: Reals


def merge(prefix: Partial, suffix: Partial) -> Partial:
    """Return the partial over the keys of both (MERGE-1 to 5): output [T, H, D] and LSE [H, T] of the type given."""
    lses = np.stack([counted(prefix.lse), counted(suffix.lse)])
    most = lses.max(axis=0)
    with np.errstate(invalid="ignore", over="ignore"):  # LSEs may lie further apart than their type reaches
        weights = np.where(np.isneginf(lses), 0, np.exp(lses - most)).astype(lses.dtype)
    total = weights.sum(axis=0)
    output = np.zeros_like(prefix.output)
    for partial, weight in zip((prefix, suffix), weights, strict=True):
        share = np.divide(weight, total, out=np.zeros_like(weight), where=weight > 0).T[..., None]
        # Where a share is 0 nothing is multiplied: 0 * NaN would be NaN (MERGE-4).
        output += np.where(share > 0, partial.output, 0) * share
    return Partial(output, most + np.log(total, where=total > 0, out=np.zeros_like(total)))


def counted(lse: Reals) -> Reals:
    """Return an LSE of any shape with +inf replaced by -inf, as both count as "no key" (MERGE-3)."""
    return np.where(np.isposinf(lse), -np.inf, lse).astype(lse.dtype)


def with_weight(lse: Reals) -> npt.NDArray[np.bool_]:
    """Return where an LSE gives its partial weight, bool of its shape (MERGE-3)."""
    return ~np.isneginf(counted(lse))


def numbers(output: Array) -> npt.NDArray[np.float64]:
    """Return the numbers of an array as float64 of the same shape, exactly. The dtype must be one of OUTPUTS."""
    return (f32_from_bf16(output) if output.dtype == BF16 else output).astype(np.float64)


def merge_attn_states(
    output: Array,
    prefix_output: Array,
    prefix_lse: Array,
    suffix_output: Array,
    suffix_lse: Array,
    output_lse: Array | None = None,
) -> None:
    """Merge in binary64 and round once, for bf16 through binary32 (MERGE).

    output, prefix_output, suffix_output: [T, H, D] of one type of OUTPUTS; the LSEs: float32 [H, T]. Any legal strides.
    output and output_lse are written.

    Raises:
        ValueError: If the call is not legal. Names argument, place, value and range; nothing is written.

    """
    check_well_formed(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)
    prefix = Partial(numbers(prefix_output), prefix_lse.astype(np.float64))
    suffix = Partial(numbers(suffix_output), suffix_lse.astype(np.float64))
    check_legal("prefix", prefix)
    check_legal("suffix", suffix)
    merged = merge(prefix, suffix)
    with np.errstate(over="ignore"):
        output[...] = bf16_from_f32(merged.output) if output.dtype == BF16 else merged.output
        if output_lse is not None:
            output_lse[...] = merged.lse


def check_well_formed(
    output: Array,
    prefix_output: Array,
    prefix_lse: Array,
    suffix_output: Array,
    suffix_lse: Array,
    output_lse: Array | None = None,
) -> None:
    """Raise ValueError, naming the argument, unless a call of merge_attn_states is well formed (MERGE-10).

    The shapes and dtypes are those of merge_attn_states.
    """
    _check_output(output)
    tokens, heads, _ = output.shape
    for name, partial in (("prefix_output", prefix_output), ("suffix_output", suffix_output)):
        _check_array(name, partial, (output.dtype,), output.shape, innermost=True)
    for name, lse in (("prefix_lse", prefix_lse), ("suffix_lse", suffix_lse)):
        _check_array(name, lse, (np.dtype(np.float32),), (heads, tokens))
    if output_lse is not None:
        _check_array("output_lse", output_lse, (np.dtype(np.float32),), (heads, tokens))
        _check_written("output_lse", output_lse, output_lse[..., None])


def _check_output(output: Array) -> None:
    _check_array("output", output, OUTPUTS, None, innermost=True)
    if output.ndim != 3 or 0 in output.shape[1:]:
        raise ValueError(f"output has shape {output.shape}; allowed is [T, >= 1, >= 1]")
    _check_written("output", output, output)


def _check_array(
    name: str, array: Array, dtypes: tuple[np.dtype[Any], ...], shape: tuple[int, ...] | None, innermost: bool = False
) -> None:
    if not isinstance(array, np.ndarray) or array.dtype not in dtypes:
        found = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
        raise ValueError(f"{name} is {found}; allowed is {' or '.join(map(str, dtypes))}")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; allowed is {shape}, as output has")
    if not array.size:
        return
    used = [stride for stride, size in zip(array.strides, array.shape, strict=True) if size > 1]
    if any(stride < 0 for stride in used):
        raise ValueError(f"{name} has strides of {array.strides} bytes; allowed are none below 0")
    if not array.flags.aligned:
        raise ValueError(f"{name} stands at {array.ctypes.data:#x}; allowed are multiples of {array.itemsize} bytes")
    if innermost and array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        raise ValueError(f"{name} has an innermost stride of {array.strides[-1]} bytes; allowed is {array.itemsize}")


def _check_written(name: str, array: Array, rows: Array) -> None:
    if array.size and rows_overlap(rows):
        raise ValueError(f"{name} has strides of {array.strides} bytes; allowed are none that make its rows overlap")
    if not array.flags.writeable:
        raise ValueError(f"{name} is read-only; allowed is a writable array")


def check_legal(name: str, partial: Partial) -> None:
    """Raise ValueError for the first number that makes a well-formed call illegal.

    `name` is "prefix" or "suffix"; `partial` is float64, output [T, H, D] and LSE [H, T]. A NaN in the LSE is illegal,
    and so is an infinity or a NaN in the output where the LSE counts.
    """
    _refuse(f"{name}_lse", partial.lse, np.isnan(partial.lse), "any other number")
    weighty = ~np.isneginf(counted(partial.lse)).T[..., None]
    _refuse(f"{name}_output", partial.output, weighty & ~np.isfinite(partial.output), "finite where its LSE is")


def _refuse(name: str, values: Reals, wrong: npt.NDArray[np.bool_], allowed: str) -> None:
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ValueError(f"{name}{list(at)} is {values[at]}; allowed is {allowed}")
