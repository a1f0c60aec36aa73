"""Convert vectors to calls: the arguments of a gather, a writer or a merge, and their placement in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from conformance.vectors.vector import TYPES, Array, Json, array_of
from fixtures.merge_cases import MergeCase, place_merge
from fixtures.placement import POISONS, Placement, placement
from reference.context import LAYOUTS
from reference.records import GENERIC, RecordLayout
from reference.writing import FORMATS

ALIKE = ("auto", "fp8")
"""kv_cache_dtypes whose records hold n numbers of one format. They have a gather of their own."""

POISON = POISONS[0]
POISON_OF = {"u": {1: POISON.cache, 2: POISON.dst}, "i": {4: -1, 8: -1}, "f": {4: 0}}
"""The poison around an array, and in a result before the call, by kind and bytes of the dtype."""


@dataclass(frozen=True)
class Call:
    """Hold the arrays of a call, its other arguments, the name of its result, and its record layout."""

    placements: Mapping[str, Placement]
    others: Json
    result: str
    layout: RecordLayout

    @property
    def blank(self) -> Array:
        """The content of the result before the call, in the result's dtype and shape."""
        return np.asarray(self.placements[self.result].data)

    @property
    def arguments(self) -> Json:
        """All arguments by name. Arrays are contiguous NumPy copies."""
        return {**{name: one.data.copy() for name, one in self.placements.items()}, **self.others}


@dataclass(frozen=True)
class Merging:
    """Hold the arrays of a merge, and for each result the argument in whose memory it lies."""

    placements: Mapping[str, Placement]
    written: Mapping[str, str]


def layout_of(name: str, given: Json) -> RecordLayout:
    """Return the record layout of a vector."""
    return GENERIC[name, given["n"]] if name in ALIKE else LAYOUTS[name]


def gather_of_one(name: str, given: Json) -> Json:
    """Return the input of a gather whose only row is the record of `given`."""
    call: Json = {"src_cache": [[given["record"]]], "block_table": [[0]], "rows": 1}
    if name in ALIKE:
        scale = {"scale": given.get("scale", "0000803f"), "n": given["n"]}
        return {**call, **scale, "cu_seq_lens": [0, 1], "token_to_seq": [0], "num_tokens": 1}
    return {**call, "workspace_starts": [0], "batch_size": 1}


def gather_call(name: str, given: Json) -> Call:
    """Return the call of a gather: dst is uint16 [rows, layout.row], and indices are int32."""
    layout = layout_of(name, given)
    cache = array_of(given["src_cache"], "u8").view(layout.cache_dtype)
    arrays: dict[str, Array] = {
        "src_cache": cache,
        "dst": np.full((given["rows"], layout.row), POISON.dst, np.uint16),
        "block_table": _table(given["block_table"]),
    }
    ints = ("workspace_starts", "cu_seq_lens", "token_to_seq", "seq_starts")
    arrays |= {key: np.array(given[key], np.int32) for key in ints if given.get(key) is not None}
    if "scale" in given:
        arrays["scale"] = array_of(given["scale"], "binary32")
    others: Json = {key: given[key] for key in ("batch_size", "num_tokens") if key in given}
    if name in ALIKE:
        others["kv_cache_dtype"] = name
    return Call(_placed(arrays, given), others, "dst", layout)


def write_call(name: str, given: Json) -> Call:
    """Return the call of a writer. kv_cache holds poison before the call."""
    form = FORMATS[name]
    blank = np.full((given["num_blocks"], given["block_size"], form.width), POISON_OF["u"][form.dtype().itemsize])
    arrays = {
        "kv_c": array_of(given["kv_c"], "bf16", 512),
        "k_pe": array_of(given["k_pe"], "bf16", 64),
        "kv_cache": blank.astype(form.dtype),
        "slot_mapping": np.array(given["slot_mapping"], np.int64),
        "scale": array_of(given["scale"], "binary32"),
    }
    return Call(_placed(arrays, given), {"kv_cache_dtype": name}, "kv_cache", LAYOUTS[name])


def merge_call(given: Json) -> Merging:
    """Return the call of a merge."""
    case = merge_case(given)
    return Merging(place_merge(case, POISON), case.written)


def merge_case(given: Json) -> MergeCase:
    """Return the case of a merge from its JSON input."""
    prefix, suffix = (output_array(given, "output", given[name]) for name in ("prefix_output", "suffix_output"))
    p, s = (array_of(given[name], "binary32") for name in ("prefix_lse", "suffix_lse"))
    return MergeCase(prefix, p, suffix, s, output_in=given["output_in"], lse_in=given["output_lse_in"])


def output_array(given: Json, result: str, told: Any) -> Array:
    """Return an array from its rows as hex: [T, H, D] in the call's type, or float32 LSEs [H, T]."""
    kind, heads = given["type"], len(given["prefix_lse"])
    if result != "output":
        return array_of(told, "binary32")
    return array_of(told, kind, heads, 16 // np.dtype(TYPES[kind]).itemsize)  # where T = 0, D is that of 16 bytes


def rows_or_blank(told: Any, blank: Array) -> Array:
    """Return an array like `blank` from rows as hex. A null row keeps the content of `blank`."""
    right = blank.copy()
    for at in np.ndindex(*blank.shape[:-1]):
        row = told
        for place in at:
            row = row[place]
        if row is not None:
            right[at] = np.frombuffer(bytes.fromhex(row), blank.dtype)
    return right


def _table(told: list[list[int]]) -> Array:
    return np.array(told, np.int32).reshape(len(told), len(told[0]) if told else 1)


def _placed(arrays: Mapping[str, Array], given: Json) -> dict[str, Placement]:
    strides = given.get("strides", {})
    return {
        name: placement(array, tuple(strides.get(name, _packed(array))), POISON_OF[array.dtype.kind][array.itemsize])
        for name, array in arrays.items()
    }


def _packed(array: Array) -> tuple[int, ...]:
    return tuple(int(np.prod(array.shape[place + 1 :], dtype=np.int64)) for place in range(array.ndim))
