"""Split a gather into steps over element offsets, each of which a fault may replace.

The steps read the memory that the target saw, poison included. So the model predicts, bit for bit, the rows of a fault
that reads outside of its rows. An `Ints` array is int64 [T] unless stated otherwise: one element for each row of dst.
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
    """Hold a view's one-dimensional allocation, the index of its first element, and its strides in elements."""

    base: npt.NDArray[Any]
    first: int
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """Describe a call of a gather as it lies in memory: its sizes, its layout, and a strip for each array.

    `left` is the content of the T rows of dst before the call, uint16 [T, layout.row].
    Indices count in elements, from the first element of each array.
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
        """Return the elements at `index`, int64 of any shape. Raises IndexError outside of the allocation."""
        strip = self.strips[name]
        places = np.asarray(index, np.int64) + strip.first
        if places.size and places.min() < 0:
            raise IndexError(f"{name} is read before its allocation")
        return np.asarray(strip.base[places])

    def elements(self, name: str, first: Ints, count: int) -> npt.NDArray[Any]:
        """Return runs of elements [N, count] from `first`, int64 [N], on. Raises IndexError as `at` does."""
        strip = self.strips[name]
        places = first + strip.first
        if places.size and (places.min() < 0 or places.max() + count > len(strip.base)):
            raise IndexError(f"{name} is read outside of its allocation")
        if len(strip.base) < count:
            return np.empty((0, count), strip.base.dtype)
        return np.lib.stride_tricks.sliding_window_view(strip.base, count)[places]

    def stride(self, name: str, dimension: int) -> int:
        """Return an argument's stride in elements."""
        return self.strips[name].strides[dimension]

    @property
    def first_rows(self) -> str:
        """The name of the argument with the first row of each request."""
        return "cu_seq_lens" if "cu_seq_lens" in self.strips else "workspace_starts"

    @property
    def starts(self) -> Ints:
        """The first row of each request: int64 [R]."""
        return self.at(self.first_rows, np.arange(self.batch_size)).astype(np.int64)


def owner(call: Call) -> Ints:
    """Return the request of each row, int64 [T]: from token_to_seq (TWIN-6), or from workspace_starts (GATHER-1)."""
    if "token_to_seq" in call.strips:
        return call.at("token_to_seq", np.arange(call.num_rows)).astype(np.int64)
    return row_owners(call.starts, call.num_rows)


def rows_alike(request: Ints) -> Ints:
    """Return, for each row, the number of rows with the same owner: int64 [T]."""
    _, which, counts = np.unique(request, return_inverse=True, return_counts=True)
    alike: Ints = counts[which]
    return alike


def origin(call: Call, request: Ints) -> Ints:
    """Return the first token of each row's request: int64 [T] (GATHER-2, GATHER-3)."""
    if "seq_starts" not in call.strips:
        return np.zeros_like(request)
    return call.at("seq_starts", request).astype(np.int64)


def token(call: Call, request: Ints, first: Ints) -> Ints:
    """Return the token of each row: int64 [T] (GATHER-2)."""
    return np.arange(call.num_rows) - call.starts[request] + first


def block(call: Call, request: Ints, token: Ints) -> Ints:
    """Return the physical block of each row's token: int64 [T] (PAGE-1)."""
    entry = request * call.stride("block_table", 0) + token // call.block_size
    return call.at("block_table", entry).astype(np.int64)


def address(call: Call, block: Ints, token: Ints) -> Ints:
    """Return the address of each row's record, in elements of src_cache: int64 [T] (PAGE-2)."""
    slot = token % call.block_size
    return block * call.stride("src_cache", 0) + slot * call.stride("src_cache", 1)


def fetch(call: Call, address: Ints) -> Records:
    """Return the bytes of the records at some addresses: uint8 [N, layout.nbytes] (RECORD-1)."""
    return call.elements("src_cache", address, call.layout.width).view(np.uint8)


def read(call: Call, records: Records) -> Bf16Bits:
    """Return the rows of records, uint16 bf16 encodings [N, layout.row] (READ, TWIN)."""
    return read_records(call.layout, records, call.scale)


def finish(call: Call, rows: Bf16Bits, which: Ints) -> Bf16Bits:
    """Return the rows of numbers `which`, int64 [N], as dst holds them later: uint16 [N, layout.row] (GATHER-5)."""
    return rows


@dataclass(frozen=True)
class Gather:
    """Hold the steps of a gather. The defaults are right."""

    owner: Callable[[Call], Ints] = owner
    origin: Callable[[Call, Ints], Ints] = origin
    token: Callable[[Call, Ints, Ints], Ints] = token
    block: Callable[[Call, Ints, Ints], Ints] = block
    address: Callable[[Call, Ints, Ints], Ints] = address
    fetch: Callable[[Call, Ints], Records] = fetch
    read: Callable[[Call, Records], Bf16Bits] = read
    finish: Callable[[Call, Bf16Bits, Ints], Bf16Bits] = finish

    def __call__(self, call: Call) -> Bf16Bits:
        """Return dst after the gather: uint16 [T, layout.row]. Raises IndexError for a read outside of memory."""
        return self.some(call, np.arange(call.num_rows))

    def some(self, call: Call, which: Ints) -> Bf16Bits:
        """Return the rows `which` of dst, int64 [N]: uint16 [N, layout.row]."""
        addresses = self.addresses(call)
        rows = [self.rows(call, addresses[part], part) for part in parts_of(which)]
        return np.concatenate(rows) if rows else call.left[:0]

    def addresses(self, call: Call) -> Ints:
        """Return the address of each row's record, in elements of src_cache: int64 [T]."""
        request = self.owner(call)
        token = self.token(call, request, self.origin(call, request))
        return self.address(call, self.block(call, request, token), token)

    def rows(self, call: Call, addresses: Ints, which: Ints) -> Bf16Bits:
        """Return the rows `which` of dst, whose records begin at `addresses`, int64 [N]: uint16 [N, layout.row]."""
        return self.finish(call, self.read(call, self.fetch(call, addresses)), which)

    @property
    def replaced(self) -> frozenset[str]:
        """The names of the steps that differ from the right ones."""
        return frozenset(each.name for each in fields(self) if getattr(self, each.name) is not each.default)

    def with_steps_of(self, other: Gather) -> Gather:
        """Return this gather with the replaced steps of another one."""
        return replace(self, **{name: getattr(other, name) for name in other.replaced})


PLACING = frozenset({"owner", "origin", "token", "block", "address"})
"""The steps that lead to addresses."""


def parts_of(which: Ints) -> list[Ints]:
    """Return row numbers, int64 [N], in parts that are small enough for a core's cache."""
    return [which[first : first + _ROWS_AT_A_TIME] for first in range(0, len(which), _ROWS_AT_A_TIME)]


def in_memory(case: GatherCase, poison: Poison) -> Call:
    """Return a case as a call, placed in NumPy arrays as `observe` does. dst is not placed; `left` holds it."""
    memory = ArrayMemory()
    regions = {name: memory.place(each) for name, each in place(case, poison).items() if name != "dst"}
    strips = {name: Strip(each.base, each.first, each.placement.strides) for name, each in regions.items()}
    left = np.broadcast_to(np.uint16(poison.dst), (case.num_rows, case.layout.row))
    columns = case.block_table.shape[1]
    return Call(case.batch_size, case.num_rows, case.block_size, columns, case.layout, case.scale, left, strips)


def strip_of(array: npt.NDArray[Any]) -> Strip:
    """Return the place of a view, of any shape and dtype, in its allocation."""
    base: Any = array
    while getattr(base, "base", None) is not None:  # a foreign object may stand between NumPy's views
        base = base.base
    held = base.reshape(-1).view(array.dtype)
    first = (array.ctypes.data - held.ctypes.data) // array.itemsize
    return Strip(held, first, tuple(stride // array.itemsize for stride in array.strides))
