"""Check the arguments of the operators: return an argument as a view, or raise a ValueError that names it."""

from collections.abc import Mapping
from typing import NoReturn

import numpy as np

from kernels.arrays import StridedArray, strided


def refuse(argument: str, found: object, expected: object) -> NoReturn:
    """Raise the ValueError of a malformed call. The message names the argument, its value and the expected value."""
    raise ValueError(f"{argument}: found {found}, expected {expected}")


def view(
    argument: str,
    value: object,
    dtypes: tuple[str, ...],
    shape: tuple[int | None, ...],
    *,
    any_stride: bool = False,
) -> StridedArray:
    """Return the view of an array that has one of these dtypes and len(shape) dimensions.

    Of `shape` only the last entry is compared; None stands for any size. The innermost stride must be one element,
    unless `any_stride`. No stride that is used may be negative.

    Returns:
        The view. The values in the array are not read.

    Raises:
        ValueError: If the value is no array, or its dtype, number of dimensions, last dimension or strides differ.

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
    """Return the view of the argument `scale`, float32 [1] or []. Raises ValueError for another dtype or shape."""
    return view("scale", value, ("float32",), () if getattr(value, "ndim", 1) == 0 else (1,))


def check_count(argument: str, value: object) -> int:
    """Return the value of a count argument as int. Raises ValueError unless it is an integer of at least 0."""
    # bool is an int to Python, and never a number of anything.
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        refuse(argument, f"{value!r} of type {type(value).__name__}", "an integer")
    if value < 0:
        refuse(argument, int(value), "at least 0")
    return int(value)


def used_strides(array: StridedArray, dimensions: int | None = None) -> list[int]:
    """Return the strides, in bytes, of the first `dimensions` dimensions that have two or more entries."""
    pairs = zip(array.strides[:dimensions], array.shape[:dimensions], strict=True)
    return [stride for stride, extent in pairs if extent > 1]


def check_writable(argument: str, array: StridedArray) -> None:
    """Raise ValueError for a read-only array."""
    if array.readonly:
        refuse(argument, "a read-only array", "a writable one")


def check_device(arrays: Mapping[str, StridedArray]) -> None:
    """Raise ValueError unless all arrays, by argument name, are on the CPU or GPU of the first one."""
    first = next(iter(arrays))
    device = arrays[first].device
    if device != "cpu" and not device.startswith("cuda:"):
        refuse(first, f"device {device}", "cpu or cuda")
    for argument, array in arrays.items():
        if array.device != device:
            refuse(argument, f"device {array.device}", f"{device}, where {first} is")


def check_alignment(argument: str, array: StridedArray, alignment: int, dimensions: int | None = -1) -> None:
    """Raise ValueError unless the address and the used strides are multiples of `alignment` bytes.

    The strides checked are those of the first `dimensions` dimensions: all but the innermost by default, all for None.
    An empty array is accepted.
    """
    if 0 in array.shape:
        return
    if array.pointer % alignment:
        refuse(argument, f"address {array.pointer:#x}", f"a multiple of {alignment} bytes")
    if any(stride % alignment for stride in used_strides(array, dimensions)):
        refuse(argument, f"strides of {array.strides} bytes", f"multiples of {alignment} bytes")


def parts_overlap(array: StridedArray, nbytes: int) -> bool:
    """Return whether two parts of `nbytes` bytes overlap. The first two dimensions of the array number the parts.

    The parts along one dimension may lie between those along the other.

    Returns:
        False for an empty array.

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
