"""Targets that hand over what no target should: by name, in a product of attributes and values, and receipts.

`conformance.selfcheck.handed_over:receipt_path` is the golden model with such a receipt.
"""

from __future__ import annotations

import enum
import pathlib
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conformance.targets.base import GATHER, OPERATORS, Target
from conformance.targets.models import NumpyTarget, TorchTarget
from conformance.targets.taken import ATTRIBUTES
from conformance.verdict import Differs, NotJudged, Unsupported

GATHER_OPERATOR = OPERATORS[GATHER]


class _Text(str):
    """As torch.__version__ is."""


class _Colour(enum.Enum):
    RED = "red"


class _Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError("it has no text")

    __str__ = __repr__


def _endless() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["itself"] = found
    return found


def _raising(error: BaseException) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        raise error

    return call


GOOD_RECEIPTS: dict[str, Any] = {
    "text_subclass": {"torch": _Text("2.13.0")},
    "path": {"built": pathlib.Path("/somewhere/gather.so")},
    "numpy_int": {"rows": np.int64(3), "more": np.uint8(255)},
    "numpy_float": {"ratio": np.float32(0.5), "none": np.float64("nan"), "much": float("-inf")},
    "numpy_bool": {"fast": np.bool_(True)},
    "numpy_array": {"shape": np.array([3, 352])},
    "set": {"archs": {"sm_90", "sm_100"}},
    "mixed_set": {"archs": {1, "a", None}},
    "bytes": {"digest_sha256": b"\x00\xff"},
    "int_key": {3: "three", "3": "three"},
    "other_keys": {None: 1, True: 2, 2.5: 3, _Colour.RED: 4},
    "surrogate": {"path": "/home/\udc80/k.so", "\udcff": 1},
    "tuple": {"versions": (1, 2, ("x",))},
    "dict_under_sha256": {"sha256": {"a": "b"}, "sources_sha256": {"k.cu": "0" * 64}},
    "list_under_sha256": {"sources_sha256": ["0" * 64, {"a": 1}]},
    "dict_under_device": {"device": {"name": "H200"}},
    "list_under_devices": {"devices": [{"name": "H200"}, 3]},
    "number_under_device": {"device": 0, "devices": 4},
    "text_under_launches": {"launches": "many"},
    "bool_launches": {"launches": True},
    "huge_int": {"seed": 1 << 200},
    "enum": {"mode": _Colour.RED},
    "date": {"built": datetime(2026, 12, 1, tzinfo=UTC)},
    "ordered": {"a": {"b": {"c": {"d": [{}, [], "", 0]}}}},
    "kernel_is_a_list": {"kernel": ["a", "b"]},
    "dict_subclass": {"counts": Counter("aab")},
    "markup": {"text": "[bold]| `x` </details> \x1b[31m\x00"},
}
"""Receipts that have an obvious form as JSON."""

BAD_RECEIPTS: dict[str, Any] = {
    "object": {"a": {"b": object()}},
    "class": {"dtype": np.float32},
    "function": {"make": len},
    "generator": {"names": (name for name in "ab")},
    "complex": {"z": 1j},
    "unshowable": {"x": [_Unshowable()]},
    "unshowable_key": {_Unshowable(): 1},
    "namespace": {"props": SimpleNamespace(a=1)},
    "endless": _endless(),
    "deep": __import__("functools").reduce(lambda inner, _: [inner], range(40), "x"),
    "large": {"log": "x" * (2 << 20)},
    "none": None,
    "text": "cuda",
    "list": ["cuda"],
    "number": 3,
}
"""Receipts that have none, or are too large, or no dict."""

VALUES: dict[str, Any] = {
    "none": None,
    "number": -7,
    "fraction": 2.5,
    "text": "no such thing",
    "bytes": b"\xff",
    "list_of_numbers": [1, 2],
    "dict": {"a": object()},
    "object": object(),
    "class": SimpleNamespace,
    "unshowable": _Unshowable(),
    "nan": float("nan"),
}
"""What is put in the place of each attribute and answer."""

RAISED: dict[str, Callable[..., Any]] = {
    "raises": _raising(KeyError("no such tensor")),
    "raises_surrogate": _raising(ValueError("/home/\udc80")),
    "raises_unshowable": _raising(type("Odd", (Exception,), {"__str__": _Unshowable.__repr__})()),
    "exits": _raising(SystemExit(0)),
    "stops": _raising(GeneratorExit()),
}
"""What an answer does instead."""

ANSWERS = ("unavailable", "describe", "launches")
FINE = {
    *(f"{answer}_none" for answer in ("most_workers", "unavailable", "launches")),
    *("describe_text", "unavailable_text", "name_text"),
}
"""Of the product, what a target may say."""


GATHER_RAISES: dict[str, BaseException] = {
    "unshowable": type("Odd", (Exception,), {"__str__": _Unshowable.__repr__, "__repr__": _Unshowable.__repr__})(),
    "surrogate": ValueError("/home/\udc80\x00\x1b[31m"),
    "huge": ValueError("x" * 10_000_000),
    "lines": ValueError("a line\n" * 100_000),
    "group": ExceptionGroup("several", [ValueError("a"), KeyError("b")]),
    "generator_exit": GeneratorExit(),
    "system_exit": SystemExit(0),
    "stop_iteration": StopIteration(3),
    "assertion": AssertionError("mine"),
    "failed": pytest.fail.Exception("no"),
    "skipped": pytest.skip.Exception("not today"),
    "xfailed": pytest.xfail.Exception("expected"),
    "exit": pytest.exit.Exception("bye", returncode=0),
    "not_judged": NotJudged("its own word"),
    "unsupported": Unsupported("its own word"),
    "conforms": Differs("its own word"),
}
"""What its gather raises on every call: each is a crash, in a few lines."""


def _replaces(self: Any, src_cache: Any, dst: Any, *arguments: Any, **named: Any) -> None:
    new = dst.clone()
    TorchTarget.cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache, new, *arguments, **named)
    dst.data = new


def _reshapes(self: Any, src_cache: Any, dst: Any, *arguments: Any, **named: Any) -> None:
    dst.shape = (-1,)


def _locks(self: Any, src_cache: Any, dst: Any, *arguments: Any, **named: Any) -> None:
    dst.flags.writeable = False


GATHER_DOES: dict[str, tuple[type[Target], Callable[..., None]]] = {
    "replaces": (TorchTarget, _replaces),
    "reshapes": (NumpyTarget, _reshapes),
    "locks": (NumpyTarget, _locks),
}
"""What its gather does to dst as an object instead of writing to its memory."""


def product() -> list[str]:
    """Return the names of all targets with a wrong attribute or answer."""
    attributes = [f"{at}_{value}" for at in ATTRIBUTES for value in (*VALUES, *RAISED)]
    return [*attributes, *(f"{answer}_{value}" for answer in ANSWERS for value in (*VALUES, *RAISED))]


def __getattr__(name: str) -> type[Target]:
    if name.startswith("receipt_"):
        what = name.removeprefix("receipt_")
        if what in RAISED:
            return type(name, (NumpyTarget,), {"receipt": RAISED[what]})
        told = GOOD_RECEIPTS[what] if what in GOOD_RECEIPTS else BAD_RECEIPTS[what]
        return type(name, (NumpyTarget,), {"receipt": lambda self: told})
    kind, _, what = name.partition("_")
    if kind == "raises":
        return type(name, (NumpyTarget,), {GATHER_OPERATOR: _raising(GATHER_RAISES[what])})
    if kind == "does":
        return type(name, GATHER_DOES[what][:1], {GATHER_OPERATOR: GATHER_DOES[what][1]})
    for place in (*ATTRIBUTES, *ANSWERS):
        value = name.removeprefix(f"{place}_")
        if value != name and value in VALUES | RAISED:
            return _with(name, place, value)
    raise AttributeError(name)


def _with(name: str, place: str, value: str) -> type[NumpyTarget]:
    def build(self: Any) -> None:
        NumpyTarget.__init__(self)
        vars(self).pop(place, None)

    if place in ANSWERS:
        says: Any = RAISED[value] if value in RAISED else lambda self: VALUES[value]
    else:
        says = property(RAISED[value] if value in RAISED else lambda self: VALUES[value], lambda self, given: None)
    return type(name, (NumpyTarget,), {"__init__": build, place: says})
