"""Split a writer into steps over the allocations of its arguments, each of which a fault may replace.

As in `steps`, the model predicts reads and writes beside the arrays too. A write outside of an allocation is skipped. A
read outside of an allocation raises IndexError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.faults.steps import Strip, strip_of
from reference.paging import Ints
from reference.profiles import Profile
from reference.scalars import Bf16Bits
from reference.writing import FORMATS, records_of

Records = npt.NDArray[Any]
WIDTHS = {"kv_c": 512, "k_pe": 64}


@dataclass(frozen=True)
class WriteCall:
    """Hold a well-formed call of concat_and_cache_mla: its arrays, its kv_cache_dtype, and the writer's profile.

    Indices count in elements, from the first element of each array.
    """

    arrays: dict[str, npt.NDArray[Any]]
    kv_cache_dtype: str
    profile: Profile

    @cached_property
    def strips(self) -> dict[str, Strip]:
        """Each array's place in its allocation, by name."""
        return {name: strip_of(array) for name, array in self.arrays.items()}

    @property
    def num_tokens(self) -> int:
        """T, the number of slots."""
        return len(self.arrays["slot_mapping"])

    @property
    def num_blocks(self) -> int:
        """The number of blocks of kv_cache."""
        return int(self.arrays["kv_cache"].shape[0])

    @property
    def block_size(self) -> int:
        """The number of records of a block."""
        return int(self.arrays["kv_cache"].shape[1])

    @property
    def width(self) -> int:
        """The number of elements of a record."""
        return FORMATS[self.kv_cache_dtype].width

    @property
    def scale(self) -> np.float32:
        """The value of the scale argument."""
        return np.float32(self.arrays["scale"].reshape(-1)[0])

    def at(self, name: str, index: Any) -> npt.NDArray[Any]:
        """Return the elements at `index`, int64 of any shape. Raises IndexError outside of the allocation."""
        strip = self.strips[name]
        places = np.asarray(index, np.int64) + strip.first
        if places.size and places.min() < 0:
            raise IndexError(f"{name} is read before its allocation")
        return np.asarray(strip.base[places])

    def runs(self, name: str, first: Ints, width: int) -> npt.NDArray[Any]:
        """Return runs of elements [N, width] from `first`, int64 [N], on. Raises IndexError as `at` does."""
        strip = self.strips[name]
        places = first + strip.first
        if places.size and (places.min() < 0 or places.max() + width > len(strip.base)):
            raise IndexError(f"{name} is read outside of its allocation")
        return np.asarray(_windows(strip.base, width)[places])

    def put(self, name: str, first: Ints, values: npt.NDArray[Any]) -> None:
        """Write `values` [N, width] to consecutive elements from each place of `first`, int64 [N].

        Elements outside of the allocation are skipped.
        """
        strip, width = self.strips[name], values.shape[1]
        places = first + strip.first
        whole = (places >= 0) & (places + width <= len(strip.base))
        _windows(strip.base, width)[places[whole]] = values[whole]
        for place, value in zip(places[~whole], values[~whole], strict=True):
            inside = slice(max(-place, 0), max(len(strip.base) - place, 0))
            strip.base[max(place, 0) : max(place + width, 0)] = value[inside]

    def stride(self, name: str, dimension: int) -> int:
        """Return an argument's stride in elements."""
        return self.strips[name].strides[dimension]


def _windows(base: npt.NDArray[Any], width: int) -> npt.NDArray[Any]:
    count, item = max(len(base) - width + 1, 0), base.itemsize
    return np.lib.stride_tricks.as_strided(base, (count, width), (item, item))


def begin(call: WriteCall) -> None:
    """Do nothing before the first read. A fault may write here."""


def slots(call: WriteCall) -> Ints:
    """Return the slot of each token: int64 [T] (WRITE-1, WRITE-3, WRITE-7)."""
    return call.at("slot_mapping", np.arange(call.num_tokens))


def chosen(call: WriteCall, slots: Ints) -> tuple[Ints, Ints]:
    """Return the tokens to write, int64 [N], and their slots, int64 [N] (WRITE-2)."""
    tokens = np.flatnonzero(slots >= 0)
    return tokens, slots[tokens]


def rows(call: WriteCall, name: str, tokens: Ints) -> Bf16Bits:
    """Return the rows of some tokens, int64 [N], in kv_c or k_pe: uint16 [N, WIDTHS[name]] (WRITE-6)."""
    return call.runs(name, tokens * call.stride(name, 0), WIDTHS[name])


def records(call: WriteCall, kv_c: Bf16Bits, k_pe: Bf16Bits) -> Records:
    """Quantize kv_c, uint16 bf16 encodings [N, 512], and k_pe, uint16 bf16 encodings [N, 64].

    Returns:
        Records [N, call.width], uint16 for "auto", else uint8 (WRITE-10 to WRITE-20).

    """
    return records_of(kv_c, k_pe, call.kv_cache_dtype, np.array([call.scale]), call.profile)


def address(call: WriteCall, slots: Ints) -> Ints:
    """Return the address of each slot's record, in elements of kv_cache: int64 [N] (WRITE-1, PAGE-2)."""
    return strided(call, slots // call.block_size, slots % call.block_size)


def strided(call: WriteCall, block: Ints, record: Ints) -> Ints:
    """Return the address of a record of a block by the strides of kv_cache: int64 [N], in elements."""
    first: Ints = block * call.stride("kv_cache", 0) + record * call.stride("kv_cache", 1)
    return first


def store(call: WriteCall, address: Ints, records: Records) -> None:
    """Write records [N, width] to their addresses, int64 [N] (WRITE-4)."""
    call.put("kv_cache", address, records)


@dataclass(frozen=True)
class Writer:
    """Hold the steps of a writer. The defaults are right."""

    begin: Callable[[WriteCall], None] = begin
    slots: Callable[[WriteCall], Ints] = slots
    chosen: Callable[[WriteCall, Ints], tuple[Ints, Ints]] = chosen
    rows: Callable[[WriteCall, str, Ints], Bf16Bits] = rows
    records: Callable[[WriteCall, Bf16Bits, Bf16Bits], Records] = records
    address: Callable[[WriteCall, Ints], Ints] = address
    store: Callable[[WriteCall, Ints, Records], None] = store

    def __call__(self, call: WriteCall) -> None:
        """Write the call's tokens. Raises IndexError if it reads outside of an allocation."""
        self.begin(call)
        tokens, slots = self.chosen(call, self.slots(call))
        with np.errstate(all="ignore"):
            written = self.records(call, self.rows(call, "kv_c", tokens), self.rows(call, "k_pe", tokens))
        self.store(call, self.address(call, slots), written)


def with_records(writer: Writer, made: Callable[[WriteCall, Bf16Bits, Bf16Bits], Records]) -> Writer:
    """Return the writer with other records, if its `records` step is the right one."""
    return replace(writer, records=made) if writer.records is records else writer
