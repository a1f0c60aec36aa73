"""A gather as steps over byte offsets, each of which a fault may replace.

The steps read the memory that the target saw, poison included, so that a fault which reads what it should not is
predicted bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from conformance.memory import ArrayMemory
from fixtures.cases import GatherCase
from fixtures.placement import Poison, place
from reference.paging import Ints, row_owners
from reference.reading import read_records
from reference.records import RecordLayout
from reference.scalars import Bf16Bits

Records = npt.NDArray[np.uint8]

_ROWS_AT_A_TIME = 1024


class Strip(NamedTuple):
    """An array in its one-dimensional allocation: where its first element stands, and its strides in elements."""

    base: npt.NDArray[Any]
    first: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """A call of a gather as it lies in memory: what it is about, and a strip for each array.

    `left` is what stands in the T rows of dst before it.
    """

    batch_size: int
    num_rows: int
    block_size: int
    table_columns: int
    layout: RecordLayout
    scale: np.float32
    left: Bf16Bits
    strips: dict[str, Strip]

    def at(self, name: str, index: Any) -> npt.NDArray[Any]:
        """Elements of an argument's allocation, counted from its first element; IndexError outside of it."""
        strip = self.strips[name]
        places = np.asarray(index, np.int64) + strip.first
        if places.size and places.min() < 0:
            raise IndexError(f"{name} is read before its allocation")
        return np.asarray(strip.base[places])

    def elements(self, name: str, first: Ints, count: int) -> npt.NDArray[Any]:
        """[N, count]: that many elements of an allocation from each place on, as `at` finds them."""
        strip = self.strips[name]
        places = first + strip.first
        if places.size and (places.min() < 0 or places.max() + count > len(strip.base)):
            raise IndexError(f"{name} is read outside of its allocation")
        if len(strip.base) < count:
            return np.empty((0, count), strip.base.dtype)
        return np.lib.stride_tricks.sliding_window_view(strip.base, count)[places]

    def stride(self, name: str, dimension: int) -> int:
        """An argument's stride in elements."""
        return self.strips[name].strides[dimension]

    @property
    def first_rows(self) -> str:
        """The argument with the first row of each request."""
        return "cu_seq_lens" if "cu_seq_lens" in self.strips else "workspace_starts"

    @property
    def starts(self) -> Ints:
        """The first R entries of it."""
        return self.at(self.first_rows, np.arange(self.batch_size)).astype(np.int64)


def owner(call: Call) -> Ints:
    """GATHER-1, or TWIN-6 where a call says whose each row is."""
    if "token_to_seq" in call.strips:
        return call.at("token_to_seq", np.arange(call.num_rows)).astype(np.int64)
    return row_owners(call.starts, call.num_rows)


def rows_alike(request: Ints) -> Ints:
    """int64 [T]: how many rows have the same owner as each row."""
    _, which, counts = np.unique(request, return_inverse=True, return_counts=True)
    alike: Ints = counts[which]
    return alike


def origin(call: Call, request: Ints) -> Ints:
    """The first token of each row's request: GATHER-2, GATHER-3."""
    if "seq_starts" not in call.strips:
        return np.zeros_like(request)
    return call.at("seq_starts", request).astype(np.int64)


def token(call: Call, request: Ints, first: Ints) -> Ints:
    """GATHER-2."""
    return np.arange(call.num_rows) - call.starts[request] + first


def block(call: Call, request: Ints, token: Ints) -> Ints:
    """PAGE-1."""
    entry = request * call.stride("block_table", 0) + token // call.block_size
    return call.at("block_table", entry).astype(np.int64)


def address(call: Call, block: Ints, token: Ints) -> Ints:
    """PAGE-2."""
    slot = token % call.block_size
    return block * call.stride("src_cache", 0) + slot * call.stride("src_cache", 1)


def fetch(call: Call, address: Ints) -> Records:
    """RECORD-1: the bytes of each row's record."""
    return call.elements("src_cache", address, call.layout.width).view(np.uint8)


def read(call: Call, records: Records) -> Bf16Bits:
    """READ, or TWIN."""
    return read_records(call.layout, records, call.scale)


def finish(call: Call, rows: Bf16Bits, which: Ints) -> Bf16Bits:
    """What stands in those rows of dst afterwards: GATHER-5."""
    return rows


@dataclass(frozen=True)
class Gather:
    """The steps of a gather; the defaults are the right ones."""

    owner: Callable[[Call], Ints] = owner
    origin: Callable[[Call, Ints], Ints] = origin
    token: Callable[[Call, Ints, Ints], Ints] = token
    block: Callable[[Call, Ints, Ints], Ints] = block
    address: Callable[[Call, Ints, Ints], Ints] = address
    fetch: Callable[[Call, Ints], Records] = fetch
    read: Callable[[Call, Records], Bf16Bits] = read
    finish: Callable[[Call, Bf16Bits, Ints], Bf16Bits] = finish

    def __call__(self, call: Call) -> Bf16Bits:
        """uint16 [T, 576]: dst after the gather; IndexError if it reads outside of an allocation."""
        return self.some(call, np.arange(call.num_rows))

    def some(self, call: Call, which: Ints) -> Bf16Bits:
        """uint16 [N, 576]: those rows of it."""
        addresses = self.addresses(call)
        rows = [self.rows(call, addresses[part], part) for part in parts_of(which)]
        return np.concatenate(rows) if rows else call.left[:0]

    def addresses(self, call: Call) -> Ints:
        """int64 [T]: where the record of each row begins."""
        request = self.owner(call)
        token = self.token(call, request, self.origin(call, request))
        return self.address(call, self.block(call, request, token), token)

    def rows(self, call: Call, addresses: Ints, which: Ints) -> Bf16Bits:
        """uint16 [N, 576]: those rows of dst, whose records begin there."""
        return self.finish(call, self.read(call, self.fetch(call, addresses)), which)

    @property
    def replaced(self) -> frozenset[str]:
        """The names of the steps that are not the right ones."""
        return frozenset(each.name for each in fields(self) if getattr(self, each.name) is not each.default)

    def with_steps_of(self, other: Gather) -> Gather:
        """This gather with the steps that another one replaces."""
        return replace(self, **{name: getattr(other, name) for name in other.replaced})


PLACING = frozenset({"owner", "origin", "token", "block", "address"})
"""The steps that lead to addresses."""


def parts_of(which: Ints) -> list[Ints]:
    """Rows as parts that are small enough for a core's cache."""
    return [which[first : first + _ROWS_AT_A_TIME] for first in range(0, len(which), _ROWS_AT_A_TIME)]


def in_memory(case: GatherCase, poison: Poison) -> Call:
    """A case laid out as `observe` lays it out, in NumPy arrays, but for dst, of which only what it holds is known."""
    memory = ArrayMemory()
    regions = {name: memory.place(each) for name, each in place(case, poison).items() if name != "dst"}
    strips = {name: Strip(each.base, each.first, each.placement.strides) for name, each in regions.items()}
    left = np.broadcast_to(np.uint16(poison.dst), (case.num_rows, case.layout.row))
    columns = case.block_table.shape[1]
    return Call(case.batch_size, case.num_rows, case.block_size, columns, case.layout, case.scale, left, strips)


def strip_of(array: npt.NDArray[Any]) -> Strip:
    """A view as it lies in the allocation that it is a view of."""
    base: Any = array
    while getattr(base, "base", None) is not None:  # between views of NumPy's own may stand an object that is none
        base = base.base
    held = base.reshape(-1).view(array.dtype)
    first = (array.ctypes.data - held.ctypes.data) // array.itemsize
    return Strip(held, first, tuple(stride // array.itemsize for stride in array.strides))
