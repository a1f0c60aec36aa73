"""A gather as steps over byte offsets, each of which a fault may replace.

The steps read the memory that the target saw, poison included, so that a fault which reads what it should not is
predicted bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from conformance.memory import ArrayMemory, Region
from fixtures.cases import GatherCase
from fixtures.placement import Poison, place
from reference.paging import Ints, row_owners
from reference.reading import read_records
from reference.scalars import Bf16Bits


@dataclass(frozen=True)
class Call:
    """A case as it lies in memory under a poison."""

    case: GatherCase
    poison: Poison
    regions: dict[str, Region]

    def at(self, name: str, index: Any) -> npt.NDArray[Any]:
        """Elements of an argument's allocation, counted from its first element; IndexError outside of it."""
        region = self.regions[name]
        places = np.asarray(index, np.int64) + region.first
        if places.size and places.min() < 0:
            raise IndexError(f"{name} is read before its allocation")
        return np.asarray(region.base[places])

    def stride(self, name: str, dimension: int) -> int:
        """An argument's stride in elements."""
        return self.regions[name].placement.strides[dimension]

    @property
    def first_rows(self) -> str:
        """The argument with the first row of each request."""
        return "cu_seq_lens" if "cu_seq_lens" in self.regions else "workspace_starts"

    @property
    def starts(self) -> Ints:
        """The first R entries of it."""
        return self.at(self.first_rows, np.arange(self.case.batch_size)).astype(np.int64)


def owner(call: Call) -> Ints:
    """GATHER-1, or TWIN-6 where a call says whose each row is."""
    if "token_to_seq" in call.regions:
        return call.at("token_to_seq", np.arange(call.case.num_rows)).astype(np.int64)
    return row_owners(call.starts, call.case.num_rows)


def origin(call: Call, request: Ints) -> Ints:
    """The first token of each row's request: GATHER-2, GATHER-3."""
    if call.case.seq_starts is None:
        return np.zeros_like(request)
    return call.at("seq_starts", request).astype(np.int64)


def token(call: Call, request: Ints, first: Ints) -> Ints:
    """GATHER-2."""
    return np.arange(call.case.num_rows) - call.starts[request] + first


def block(call: Call, request: Ints, token: Ints) -> Ints:
    """PAGE-1."""
    entry = request * call.stride("block_table", 0) + token // call.case.block_size
    return call.at("block_table", entry).astype(np.int64)


def address(call: Call, block: Ints, token: Ints) -> Ints:
    """PAGE-2."""
    slot = token % call.case.block_size
    return block * call.stride("src_cache", 0) + slot * call.stride("src_cache", 1)


def read(call: Call, records: npt.NDArray[np.uint8]) -> Bf16Bits:
    """READ, or TWIN."""
    return read_records(call.case.layout, records, call.case.scale)


def finish(call: Call, rows: Bf16Bits) -> Bf16Bits:
    """What stands in dst afterwards: GATHER-5."""
    return rows


@dataclass(frozen=True)
class Gather:
    """The steps of a gather; the defaults are the right ones."""

    owner: Callable[[Call], Ints] = owner
    origin: Callable[[Call, Ints], Ints] = origin
    token: Callable[[Call, Ints, Ints], Ints] = token
    block: Callable[[Call, Ints, Ints], Ints] = block
    address: Callable[[Call, Ints, Ints], Ints] = address
    read: Callable[[Call, npt.NDArray[np.uint8]], Bf16Bits] = read
    finish: Callable[[Call, Bf16Bits], Bf16Bits] = finish

    def __call__(self, call: Call) -> Bf16Bits:
        """uint16 [T, 576]: dst after the gather; IndexError if it reads outside of an allocation."""
        request = self.owner(call)
        token = self.token(call, request, self.origin(call, request))
        address = self.address(call, self.block(call, request, token), token)
        records = call.at("src_cache", address[:, None] + np.arange(call.case.layout.width))
        return self.finish(call, self.read(call, records.view(np.uint8)))


def in_memory(case: GatherCase, poison: Poison) -> Call:
    """A case laid out as `observe` lays it out, in NumPy arrays."""
    memory = ArrayMemory()
    return Call(case, poison, {name: memory.place(placement) for name, placement in place(case, poison).items()})
