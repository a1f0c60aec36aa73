"""Merge in torch: the second golden model of SPEC.md's MERGE clauses.

It is written from SPEC.md and shares neither code nor method with the NumPy model. The share of the suffix is a
logistic function of the difference of the LSEs. The result is the prefix, moved by that share towards the suffix. A
partial without weight is selected away at the end.
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus

_TYPES = (torch.bfloat16, torch.float16, torch.float32)


def _refuse(name: str, found: object, allowed: str) -> None:
    raise ValueError(f"{name}: found {found}, allowed {allowed}")


def merge(prefix: Tensor, p: Tensor, suffix: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
    """Return output [T, H, D] and LSE [H, T] of two partials of these shapes, all float64 (MERGE-1 to MERGE-5)."""
    d = s - p  # NaN or infinite where one has no weight, and then not chosen
    share = torch.sigmoid(d).T[:, :, None]
    # From the heavier one's side, so that a share near 1 loses no digits of the other one.
    near = torch.where(share <= 0.5, prefix + share * (suffix - prefix), suffix + (1 - share) * (prefix - suffix))
    lse = torch.maximum(p, s) + softplus(-d.abs(), beta=1, threshold=1e30)
    none_of_p, none_of_s = p.isinf(), s.isinf()  # of either sign
    nowhere = torch.full_like(p, -torch.inf)
    lse = torch.where(none_of_p, torch.where(none_of_s, nowhere, s), torch.where(none_of_s, p, lse))
    p_out, s_out = none_of_p.T[:, :, None], none_of_s.T[:, :, None]
    near = near.where(~p_out, suffix).where(~s_out, prefix).where(~(p_out & s_out), torch.zeros_like(prefix))
    return near, lse


def _overlaps(array: Tensor, width: int) -> bool:
    """Return whether two rows of `width` elements share one. The first two dimensions of the array number the rows."""
    (near, steps), (far, _) = sorted((stride, n) for n, stride in zip(array.shape[:2], array.stride()[:2], strict=True))
    if near >= width and far >= near * (steps - 1) + width:
        return False  # nested; what interleaves takes the long way
    first, second = (torch.arange(n) * stride for n, stride in zip(array.shape[:2], array.stride()[:2], strict=True))
    starts = (first[:, None] + second[None, :]).flatten().sort().values
    return bool((starts.diff() < width).any())


def _check(name: str, array: object, dtypes: tuple[torch.dtype, ...], like: tuple[int, ...], on: torch.device) -> None:
    if not isinstance(array, Tensor):
        _refuse(name, type(array).__name__, "torch.Tensor")
        return
    if array.dtype not in dtypes:
        _refuse(f"{name}.dtype", array.dtype, " or ".join(map(str, dtypes)))
    if tuple(array.shape) != like:
        _refuse(f"{name}.shape", list(array.shape), str(list(like)))
    if array.device != on:
        _refuse(f"{name}.device", array.device, f"{on} of output")
    if len(like) == 3 and array.numel() and like[2] > 1 and array.stride(2) != 1:
        _refuse(f"{name}.stride(2)", array.stride(2), "1 element")


def _check_call(
    output: Tensor,
    prefix_output: Tensor,
    prefix_lse: Tensor,
    suffix_output: Tensor,
    suffix_lse: Tensor,
    output_lse: Tensor | None,
) -> None:
    if not isinstance(output, Tensor) or output.ndim != 3 or 0 in output.shape[1:]:
        _refuse("output", list(getattr(output, "shape", ())), "a tensor [T, H, D] with H and D of at least 1")
    like, on = tuple(output.shape), output.device
    _check("output", output, _TYPES, like, on)
    for name, array in (("prefix_output", prefix_output), ("suffix_output", suffix_output)):
        _check(name, array, (output.dtype,), like, on)
    lses = {"prefix_lse": prefix_lse, "suffix_lse": suffix_lse}
    if output_lse is not None:
        lses["output_lse"] = output_lse
    for name, array in lses.items():
        _check(name, array, (torch.float32,), (like[1], like[0]), on)
    if _overlaps(output, like[2]):
        _refuse("output.stride()", list(output.stride()), "rows that do not overlap")
    if output_lse is not None and _overlaps(output_lse, 1):
        _refuse("output_lse.stride()", list(output_lse.stride()), "elements that do not overlap")


def _check_numbers(name: str, output: Tensor, lse: Tensor) -> None:
    bad = lse.isnan()
    if bad.any():
        _refuse(f"{name}_lse{bad.nonzero()[0].tolist()}", "NaN", "any other number")
    bad = ~output.isfinite() & lse.isfinite().T[:, :, None]
    if bad.any():
        at = bad.nonzero()[0].tolist()
        _refuse(f"{name}_output{at}", output[tuple(at)].item(), "a finite number, where the LSE is one")


def merge_attn_states(
    output: Tensor,
    prefix_output: Tensor,
    prefix_lse: Tensor,
    suffix_output: Tensor,
    suffix_lse: Tensor,
    output_lse: Tensor | None = None,
) -> None:
    """Merge two partials: all of MERGE.

    output, prefix_output and suffix_output are [T, H, D] of torch.bfloat16, float16 or float32; the LSEs are
    torch.float32 [H, T]. output and output_lse are written. A call that is not legal raises ValueError, and nothing is
    written.
    """
    _check_call(output, prefix_output, prefix_lse, suffix_output, suffix_lse, output_lse)
    prefix, suffix = (prefix_output.double(), prefix_lse.double()), (suffix_output.double(), suffix_lse.double())
    _check_numbers("prefix", *prefix)
    _check_numbers("suffix", *suffix)
    merged, lse = merge(*prefix, *suffix)
    output.copy_(merged)
    if output_lse is not None:
        output_lse.copy_(lse)
