"""Define a vector, and its arrays in JSON: hex of little-endian bytes, one string a row."""

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
"""NumPy dtypes of arrays as hex, by the type's name in a file."""

THIS_SUITE = "this suite"


@dataclass(frozen=True)
class Vector:
    """Describe one input of an operator, the reason that it is hard, and the clause that a wrong answer breaks.

    `source` is the public report of the defect. `refused` names arguments: a target has to refuse the call and to name
    one of them. If it is empty, the call is legal.
    """

    clause: str
    flags: tuple[str, ...]
    comment: str
    input: Json
    source: str = THIS_SUITE
    refused: tuple[str, ...] = ()


@dataclass(frozen=True)
class Operator:
    """Describe an operator over one layout of records, or over no layout, with its vectors.

    `notes` tells how to run it and how to compare. `arrays` gives type and shape of each argument that stands as hex.
    `expected` is the golden model: it returns the right answer of a vector. `disputes` is a second source: it returns
    its objections to an expected answer, as lines.
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
        """The name of the operator's file, without its suffix."""
        return self.name if self.layout is None else f"{self.name}.{self.layout}"

    def id_of(self, given: Json) -> str:
        """Return the id of an input: 16 hex digits of a hash of operator, layout and input.

        The expected answer is not hashed, so that its correction keeps the id.

        Returns:
            The id.

        """
        told = json.dumps([self.name, self.layout, given], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(told.encode()).hexdigest()[:16]


def hexed(array: npt.ArrayLike, kind: str = "u8") -> str:
    """Return the bytes of one row of numbers or encodings, any shape, as hex of type `kind`."""
    return np.ascontiguousarray(array, TYPES[kind]).tobytes().hex()


def rows_of(array: npt.ArrayLike, kind: str = "u8") -> Any:
    """Return an array as nested lists of its rows as hex. The last dimension is the row."""
    given = np.asarray(array)
    return hexed(given, kind) if given.ndim < 2 else [rows_of(one, kind) for one in given]


def array_of(told: Any, kind: str, *width: int) -> Array:
    """Return the array of nested lists of rows as hex: the inverse of `rows_of`.

    `width` gives the dimensions after the first for an array without rows.

    Returns:
        An array of the dtype TYPES[kind].

    """
    if isinstance(told, str):
        return np.frombuffer(bytes.fromhex(told), TYPES[kind]).copy()
    rows = [array_of(one, kind, *width[1:]) for one in told]
    return np.stack(rows) if rows else np.empty((0, *width), TYPES[kind])
