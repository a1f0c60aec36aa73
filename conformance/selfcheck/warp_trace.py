"""Which bytes the lanes of a warp touch together: the kernels run as C++, and hooks note every access of each lane.

That the lanes of a GPU run in step is the model: the n-th load of a lane from an array goes together with the n-th of
each other lane. What a compiler for a GPU makes of the loads and stores, machine_code.py reads.
"""

import ctypes
import functools
import subprocess
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels import headers, host_build, sources
from kernels.layout import NVFP4_DS_MLA

LANES = 32
_ACCESS = np.dtype(
    [("address", "u8"), ("block", "u4"), ("row", "u2"), ("lane", "u2"), ("bytes", "i4"), ("unused", "i4")]
)
_Lane = list[tuple[int, int]]
"""What a lane touches, in order: the first byte, and the byte behind the last."""


class Trace:
    """What the warps of one call did."""

    def __init__(self, operator: Callable[..., None], call: dict[str, Any]) -> None:
        """Run `operator`, a method of an Operators that has built nothing yet, in fewer than 64 thread blocks."""
        libraries: list[ctypes.CDLL] = []

        def build(source: str, root: Path | None = None, defines: tuple[str, ...] = ()) -> SimpleNamespace:
            libraries.append(_build(source, sources.sources_root(root), defines))
            libraries[0].trace_clear()
            return SimpleNamespace(library=libraries[0])

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(host_build, "build", build)
            operator(**call)
        (library,) = libraries
        library.trace_begin.restype = ctypes.POINTER(ctypes.c_uint8)
        library.trace_used.restype = ctypes.c_longlong
        size = library.trace_used() * _ACCESS.itemsize
        self._accesses = np.ctypeslib.as_array(library.trace_begin(), (size,)).view(_ACCESS).copy()

    def loads(self, array: np.ndarray, width: int = 4) -> list[Counter[str]]:
        """Return for each warp that loads from an array how often it does so in which stretches: {"4 x 128": 1}.

        "4 x 128" are four stretches of 128 bytes. What a lane loads in a row from the same `width` aligned bytes is one
        load, since C++ moves a vector in parts. Lanes with fewer loads than others show in the last stretches.
        """
        return self._patterns(array, width, self._accesses["bytes"] > 0)

    def stores(self, array: np.ndarray, width: int) -> list[Counter[str]]:
        """Return the same of stores to an array."""
        return self._patterns(array, width, self._accesses["bytes"] < 0)

    def _patterns(self, array: np.ndarray, width: int, chosen: np.ndarray) -> list[Counter[str]]:
        first, behind = array.ctypes.data, array.ctypes.data + array.nbytes
        inside = (self._accesses["address"] >= first) & (self._accesses["address"] < behind)
        warps: dict[tuple[int, int], list[_Lane]] = defaultdict(lambda: [[] for _ in range(LANES)])
        for address, block, row, lane, nbytes, _ in self._accesses[inside & chosen].tolist():
            _append(warps[block, row][lane], address, address + abs(nbytes), width)
        return [
            Counter(_stretches([lane[place] for lane in lanes if place < len(lane)]) for place in range(_most(lanes)))
            for lanes in warps.values()
        ]


def _most(lanes: list[_Lane]) -> int:
    return max(map(len, lanes))


def _append(lane: _Lane, first: int, behind: int, width: int) -> None:
    if lane and lane[-1][1] == first and lane[-1][0] // width == first // width:
        lane[-1] = (lane[-1][0], behind)
    else:
        lane.append((first, behind))


def _stretches(touched: _Lane) -> str:
    stretches: list[list[int]] = []
    for first, behind in sorted(touched):
        if stretches and first <= stretches[-1][1]:
            stretches[-1][1] = max(stretches[-1][1], behind)
        else:
            stretches.append([first, behind])
    lengths = Counter(behind - first for first, behind in stretches)
    return " + ".join(f"{times} x {length}" for length, times in sorted(lengths.items()))


@functools.cache
def _build(source: str, root: Path, defines: tuple[str, ...]) -> ctypes.CDLL:
    compiler, hooks = host_build.compiler(), Path(__file__).with_suffix(".cpp")
    includes = [argument for folder in headers.host_include_dirs() for argument in ("-isystem", str(folder))]
    flags = [*host_build.FLAGS, *NVFP4_DS_MLA.defines(), *defines, f'-DHOST_SOURCE="{root / source}"', *includes]
    flags.remove("-shared")
    with tempfile.TemporaryDirectory() as folder:
        traced, library = f"{folder}/traced.o", f"{folder}/traced.so"
        subprocess.run([*compiler, *flags, "-fsanitize=thread", "-c", str(hooks), "-o", traced], check=True)
        # Without the flag, and so without ThreadSanitizer's library. -z defs names a hook that is missing.
        subprocess.run([*compiler, "-shared", "-pthread", "-Wl,-z,defs", traced, "-o", library], check=True)
        return ctypes.CDLL(library)
