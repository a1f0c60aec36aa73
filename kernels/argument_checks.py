"""What the checks of every operator have in common: an argument as a view, or a ValueError that names it."""

from collections.abc import Mapping
from typing import NoReturn

import numpy as np

from kernels.arrays import StridedArray, strided


def refuse(argument: str, found: object, expected: object) -> NoReturn:
    """Raise the ValueError of a malformed call."""
    raise ValueError(f"{argument}: found {found}, expected {expected}")


def view(
    argument: str,
    value: object,
    dtypes: tuple[str, ...],
    shape: tuple[int | None, ...],
    *,
    any_stride: bool = False,
) -> StridedArray:
    """Return the view of an array of one of these dtypes and so many dimensions, or raise ValueError.

    Of `shape`, the last dimension counts, unless it is None. The innermost stride must be one element, unless it may be
    `any_stride`, and no stride negative, where a stride is ever used.
    """
    try:
        array = strided(value)
    except TypeError as error:
        refuse(argument, error, "an array or tensor")
    if array.dtype not in dtypes:
        refuse(argument, f"dtype {array.dtype}", " or ".join(dtypes))
    if len(array.shape) != len(shape):
        refuse(argument, f"{len(array.shape)} dimensions", len(shape))
    if shape and shape[-1] is not None and array.shape[-1] != shape[-1]:
        refuse(argument, f"last dimension {array.shape[-1]}", shape[-1])
    if 0 in array.shape:
        return array  # without elements no stride is ever used, and NumPy says 0
    if any(stride < 0 for stride in used_strides(array)):
        refuse(argument, f"strides of {array.strides} bytes", "no negative stride")
    if shape and not any_stride and array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        refuse(argument, f"an innermost stride of {array.strides[-1]} bytes", f"{array.itemsize}, one element")
    return array


def view_scale(value: object) -> StridedArray:
    """Return the view of the argument `scale`, float32 [1] or [], or raise ValueError."""
    return view("scale", value, ("float32",), () if getattr(value, "ndim", 1) == 0 else (1,))


def check_count(argument: str, value: object) -> int:
    """Return a number that counts something; raise ValueError unless it is an integer of at least 0."""
    # bool is an int to Python, and never a number of anything.
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        refuse(argument, f"{value!r} of type {type(value).__name__}", "an integer")
    if value < 0:
        refuse(argument, int(value), "at least 0")
    return int(value)


def used_strides(array: StridedArray, dimensions: int | None = None) -> list[int]:
    """Return the strides of the first `dimensions` dimensions, in bytes, without those of fewer than two entries."""
    pairs = zip(array.strides[:dimensions], array.shape[:dimensions], strict=True)
    return [stride for stride, extent in pairs if extent > 1]


def check_writable(argument: str, array: StridedArray) -> None:
    """Raise ValueError for a read-only array."""
    if array.readonly:
        refuse(argument, "a read-only array", "a writable one")


def check_device(arrays: Mapping[str, StridedArray]) -> None:
    """Raise ValueError unless all arrays, by the names of their arguments, are on the first one's CPU or GPU."""
    first = next(iter(arrays))
    device = arrays[first].device
    if device != "cpu" and not device.startswith("cuda:"):
        refuse(first, f"device {device}", "cpu or cuda")
    for argument, array in arrays.items():
        if array.device != device:
            refuse(argument, f"device {array.device}", f"{device}, where {first} is")


def check_alignment(argument: str, array: StridedArray, alignment: int, dimensions: int | None = -1) -> None:
    """Raise ValueError unless address and used strides are multiples of `alignment` bytes.

    The strides are those of the first `dimensions` dimensions: of all but the innermost, or of all with None.
    """
    if 0 in array.shape:
        return
    if array.pointer % alignment:
        refuse(argument, f"address {array.pointer:#x}", f"a multiple of {alignment} bytes")
    if any(stride % alignment for stride in used_strides(array, dimensions)):
        refuse(argument, f"strides of {array.strides} bytes", f"multiples of {alignment} bytes")


def parts_overlap(array: StridedArray, nbytes: int) -> bool:
    """Return whether two of the parts of `nbytes` bytes that the first two dimensions number overlap.

    The parts along one dimension may lie between those along the other.
    """
    if 0 in array.shape:
        return False
    dimensions = zip(array.strides[:2], array.shape[:2], strict=True)
    used = sorted((stride, extent) for stride, extent in dimensions if extent > 1)
    if any(stride < nbytes for stride, _ in used):
        return True
    if len(used) < 2:
        return False
    (small, few), (large, many) = used
    # No step where the parts of one dimension lie between two of the other, as they do in nearly every array. Else an
    # overlap is found within small / nbytes + 1 steps, if there is one, and there are at most `few`.
    for distance in range(large, min((many - 1) * large + 1, (few - 1) * small + nbytes), large):
        if distance % small < nbytes or -distance % small < nbytes:
            return True
    return False
