"""Convert numbers with NVIDIA's headers on the CPU: an oracle for SPEC.md's chapter SCALAR."""

import ctypes
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from kernels import host_build


def f32_to_e2m1(values: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Return the uint8 e2m1 codes, 0 to 15, of float32 `values` of any shape (SCALAR-2, SCALAR-3)."""
    return _convert("f32_to_e2m1", values, np.float32, np.uint8)


def f32_to_e4m3(values: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Return the uint8 e4m3 bytes of float32 `values` of any shape, saturated at 448 (SCALAR-5, SCALAR-6)."""
    return _convert("f32_to_e4m3", values, np.float32, np.uint8)


def f32_to_bf16(values: npt.ArrayLike) -> npt.NDArray[np.uint16]:
    """Return the uint16 bf16 encodings of float32 `values` of any shape (SCALAR-7, SCALAR-8)."""
    return _convert("f32_to_bf16", values, np.float32, np.uint16)


def e2m1_to_f32(codes: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return the float32 values of e2m1 `codes`, uint8 of any shape. Only the low four bits count (SCALAR-1)."""
    return _convert("e2m1_to_f32", codes, np.uint8, np.float32)


def e4m3_to_f32(octets: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return the float32 values of e4m3 bytes, uint8 of any shape (SCALAR-4)."""
    return _convert("e4m3_to_f32", octets, np.uint8, np.float32)


def _convert(function: str, values: npt.ArrayLike, given: npt.DTypeLike, wanted: npt.DTypeLike) -> npt.NDArray[Any]:
    """Run one exported function of kernels/host/scalars.cpp on `values`, of dtype `given` and any shape.

    Returns:
        An array of dtype `wanted` and of the shape of `values`.

    Raises:
        TypeError: If `values` has another dtype.

    """
    array = np.asarray(values)
    if array.dtype != given:
        raise TypeError(f"{function} takes {np.dtype(given).name} and was given {array.dtype.name}")
    array = np.ascontiguousarray(array)
    result = np.empty(array.shape, wanted)
    entry = getattr(_library(), function)
    entry.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_longlong)
    entry.restype = None
    entry(array.ctypes.data, result.ctypes.data, array.size)
    return result


@functools.cache
def _library() -> ctypes.CDLL:
    return host_build.build("host/scalars.cpp").library
