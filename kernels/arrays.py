"""View NumPy arrays, PyTorch tensors and CuPy arrays alike: pointer, shape, strides, dtype, device. Copies nothing.

A library is used only if it is already imported. A caller that has one of its arrays has imported it.
"""

import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np


class StridedArray(NamedTuple):
    """Describe where the elements of an array lie.

    `pointer` is an address on `device` ("cpu" or "cuda:N"). `strides` are in bytes. `dtype` is the NumPy name ("uint8",
    "int32", "bfloat16", or ">i4" if the byte order is not the machine's). `library` is "numpy", "torch" or "cupy". The
    view does not keep the array alive.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    itemsize: int
    device: str
    readonly: bool
    library: str


def strided(array: object) -> StridedArray:
    """Return the view of a NumPy array, a strided PyTorch tensor or a CuPy array. Raises TypeError for others."""
    if isinstance(array, np.ndarray):
        return _numpy(array)
    if _is_instance(array, "torch", "Tensor"):
        return _torch(array)
    if _is_instance(array, "cupy", "ndarray"):
        return _cupy(array)
    raise TypeError(f"{type(array).__name__} is no NumPy array, PyTorch tensor or CuPy array")


def _is_instance(array: object, library: str, type_name: str) -> bool:
    # The attribute is missing while another thread is still importing the library.
    kind = getattr(sys.modules.get(library), type_name, None)
    return kind is not None and isinstance(array, kind)


@cache
def _dtype_name(dtype: np.dtype[Any]) -> str:
    # np.dtype(">i4").name is "int32", which would hide the wrong byte order.
    return dtype.name if dtype.isnative else dtype.str


def _numpy(array: np.ndarray[Any, Any]) -> StridedArray:
    return StridedArray(
        pointer=array.ctypes.data,
        shape=array.shape,
        strides=array.strides,
        dtype=_dtype_name(array.dtype),
        itemsize=array.itemsize,
        device="cpu",
        readonly=not array.flags.writeable,
        library="numpy",
    )


def _torch(tensor: Any) -> StridedArray:
    if str(tensor.layout) != "torch.strided":
        raise TypeError(f"{tensor.layout} tensor has no strides")
    itemsize = int(tensor.element_size())
    return StridedArray(
        pointer=int(tensor.data_ptr()),
        shape=tuple(int(extent) for extent in tensor.shape),
        strides=tuple(int(stride) * itemsize for stride in tensor.stride()),
        dtype=str(tensor.dtype).removeprefix("torch."),
        itemsize=itemsize,
        device=str(tensor.device),
        readonly=False,
        library="torch",
    )


def _cupy(array: Any) -> StridedArray:
    return StridedArray(
        pointer=int(array.data.ptr),
        shape=tuple(array.shape),
        strides=tuple(array.strides),
        dtype=_dtype_name(array.dtype),
        itemsize=int(array.itemsize),
        device=f"cuda:{array.device.id}",
        readonly=False,
        library="cupy",
    )
