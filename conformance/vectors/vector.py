"""What a vector is, and how arrays stand in one: as hex of their little-endian bytes, a row a string."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Json = dict[str, Any]

TYPES = {"u8": "|u1", "bf16": "<u2", "binary16": "<f2", "binary32": "<f4"}
"""The types of arrays that stand as hex, by what they are in NumPy."""

THIS_SUITE = "this suite"


@dataclass(frozen=True)
class Vector:
    """One input of an operator, why it is hard, and the clause that a wrong answer breaks.

    `source` is the public report that it comes from. `refused` names the arguments of which a target, which has to
    refuse the call, has to name one.
    """

    clause: str
    flags: tuple[str, ...]
    comment: str
    input: Json
    source: str = THIS_SUITE
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operator:
    """An operator over one layout of records, or over none, with its vectors.

    `notes` says how to run it and how to compare; `arrays` gives, by argument, type and shape of what stands as hex.
    `expected` is the golden model: a vector -> what is right. `disputes` is a source of its own: a vector and what is
    expected -> what it says against that, in lines.
    """

    name: str
    notes: str
    expected: Callable[[Vector], Json]
    disputes: Callable[[Vector, Json], list[str]]
    vectors: Sequence[Vector]
    layout: str | None = None
    arrays: dict[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def stem(self) -> str:
        """What its file is called."""
        return self.name if self.layout is None else f"{self.name}.{self.layout}"

    def id_of(self, given: Json) -> str:
        """An input's id, from operator, layout and input alone, so that a correction of `expected` keeps it."""
        told = json.dumps([self.name, self.layout, given], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(told.encode()).hexdigest()[:16]


def hexed(array: npt.ArrayLike, kind: str = "u8") -> str:
    """One row of numbers, or of encodings -> hex."""
    return np.ascontiguousarray(array, TYPES[kind]).tobytes().hex()


def rows_of(array: npt.ArrayLike, kind: str = "u8") -> Any:
    """An array of two dimensions and more -> nested lists of its rows as hex."""
    given = np.asarray(array)
    return hexed(given, kind) if given.ndim < 2 else [rows_of(one, kind) for one in given]


def array_of(told: Any, kind: str, *width: int) -> Array:
    """The reverse: `width` is what an array without rows has for the dimensions that it cannot tell."""
    if isinstance(told, str):
        return np.frombuffer(bytes.fromhex(told), TYPES[kind]).copy()
    rows = [array_of(one, kind, *width[1:]) for one in told]
    return np.stack(rows) if rows else np.empty((0, *width), TYPES[kind])
