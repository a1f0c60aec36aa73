"""Check and copy the attributes of a foreign target once, as types that reports can hold."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from enum import Enum
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np

from conformance.memory.protocol import Memory
from conformance.raised import located, writable
from conformance.targets.base import ATTEND, GATHERS, OPERATORS, WRITES, Target
from reference.profiles import PROFILES, Profile

MOST_DEPTH, MOST_BYTES = 16, 1 << 20
"""The limits of a receipt: its nesting, and its size as JSON in bytes."""

JSON_TYPES = "None, bool, int, float, str, and lists and dicts of those"


class Unusable(Exception):
    """Report an attribute or answer of a target that cannot be used: its name, its value and what is allowed."""


def plain(value: Any, what: str, depth: int = 0) -> Any:
    """Return a value as JSON types: paths, sets, NumPy numbers in their usual form. Raises Unusable for others."""
    if depth > MOST_DEPTH:
        raise Unusable(f"{what} is nested deeper than {MOST_DEPTH} levels")
    match value:
        case None | bool():
            return value
        case Enum():
            return plain(value.value, what, depth + 1)
        case np.generic() | np.ndarray():
            return plain(value.tolist(), what, depth + 1)
        case int():
            return int(value)
        case float():
            return float(value) if np.isfinite(value) else str(float(value))
        case str() | PurePath() | date():
            return writable(str(value))
        case bytes() | bytearray():
            return value.hex()
        case Mapping():
            return {_key(key, what): plain(each, f"{what}[{key!r}]", depth + 1) for key, each in value.items()}
        case set() | frozenset():
            return sorted((plain(each, what, depth + 1) for each in value), key=repr)
        case list() | tuple():
            return [plain(each, f"{what}[{place}]", depth + 1) for place, each in enumerate(value)]
    raise Unusable(f"{what} is of type {_type(value)}; allowed are {JSON_TYPES}")


def _key(key: Any, what: str) -> str:
    key = plain(key, f"a key of {what}")
    return key if isinstance(key, str) else json.dumps(key)


def _type(value: Any) -> str:
    kind = type(value)
    return writable(kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}")


def _wrong(what: str, value: Any, allowed: str) -> Unusable:
    try:
        shown = f"{value!r:.80}"
    except Exception:
        shown = "something that cannot be shown"
    return Unusable(writable(f"its {what} is {shown} ({_type(value)}); allowed is {allowed}"))


def _text(what: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _wrong(what, value, "a text")
    return writable(str(value))


def _text_or_none(what: str, value: Any) -> str | None:
    return None if value is None else _text(what, value)


def _one_of(*allowed: str) -> Callable[[str, Any], str]:
    def take(what: str, value: Any) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise _wrong(what, value, " or ".join(map(repr, allowed)))
        return str(value)

    return take


def _some_of(allowed: Iterable[str]) -> Callable[[str, Any], frozenset[str]]:
    def take(what: str, value: Any) -> frozenset[str]:
        known = sorted(allowed)
        if isinstance(value, str) or not isinstance(value, set | frozenset | list | tuple):
            raise _wrong(what, value, f"a set of {', '.join(known)}")
        for each in value:
            if not isinstance(each, str) or each not in known:
                near = difflib.get_close_matches(str(each), known, 1)
                meant = f"; did you mean {near[0]!r}?" if near else f"; allowed are {', '.join(known)}"
                raise Unusable(writable(f"its {what} have {each!r:.80}, which is none{meant}"))
        return frozenset(map(str, value))

    return take


def _truth(what: str, value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise _wrong(what, value, "True or False")
    return bool(value)


def _number(least: int) -> Callable[[str, Any], int]:
    def take(what: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise _wrong(what, value, f"a whole number from {least:,} on")
        return int(value)

    return take


def _workers(what: str, value: Any) -> int | None:
    return None if value is None else _number(1)(what, value)


def _profile(what: str, value: Any) -> Profile:
    if isinstance(value, str) and value in PROFILES:
        return PROFILES[value]
    if not isinstance(value, Profile):
        raise _wrong(what, value, f"a reference.profiles.Profile, or one of {', '.join(PROFILES)}")
    return value


def _memory(what: str, value: Any) -> Memory:
    needed = [name for name in (*Memory.__annotations__, *vars(Memory)) if not name.startswith("_")]
    if isinstance(value, type) or (missing := [name for name in needed if not hasattr(value, name)]):
        lacking = "it is a class" if isinstance(value, type) else f"it lacks {', '.join(missing)}"
        raise _wrong(what, value, f"a memory of conformance.memory, or the like ({lacking})")
    memory: Memory = value
    return memory


def _texts(what: str, value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for pair in value.items() for each in pair):
        raise _wrong(what, value, "a dict of texts by text")
    return dict(value)


def _offered(what: str, value: Any) -> frozenset[str]:
    if not isinstance(value, set | frozenset | list | tuple) or not all(isinstance(each, str) for each in value):
        raise _wrong(what, value, "a set of texts")
    return frozenset(map(writable, value))


def _counts(what: str, value: Any) -> dict[str, int] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise _wrong(what, value, "a dict of whole numbers by text, or None")
    return {_text(f"{what}'s key", key): _number(0)(f"{what}[{key!r:.40}]", count) for key, count in value.items()}


ATTRIBUTES: dict[str, Callable[[str, Any], Any]] = {
    "name": _text,
    "capabilities": _some_of(OPERATORS),
    "nan": _one_of("canonical", "any"),
    "profile": _profile,
    "attends": _some_of(WRITES),
    "attends_in": _one_of("binary32", "bf16"),
    "memory": _memory,
    "schemas": _texts,
    "slow": _truth,
    "crash_prone": _truth,
    "most_workers": _workers,
    "device_bytes": _number(0),
    "usual_device_bytes": _number(0),
    "is_gpu_code": _truth,
}
"""The attributes of a target, and the function that checks each."""


class Taken(Target):
    """Wrap a foreign target: its operators, and its checked attributes.

    Attributes, unavailable(), describe() and launches() are read in the constructor, so that errors appear before
    anything is judged. receipt() is read at each call, since it changes.
    """

    def __init__(self, given: Target) -> None:
        """Read and check the target. Raises Unusable if it cannot be used."""
        self.given = given
        self._hindrances: dict[str, str | None] = {}
        wrong = []
        for attribute, take in ATTRIBUTES.items():
            name = "_gpu_code" if attribute == "is_gpu_code" else attribute
            try:
                setattr(self, name, take(attribute, self._asked(attribute, partial(getattr, given, attribute))))
            except Unusable as reason:
                wrong.append(str(reason))
        if wrong:
            raise Unusable(" and ".join(wrong))
        for capability in sorted(self.capabilities):
            operator = OPERATORS[capability]
            if getattr(type(given), operator, None) is getattr(Target, operator) and operator not in vars(given):
                raise Unusable(f"it claims {capability} and does not define {operator}()")
        self._unavailable = _text_or_none("unavailable()", self._asked("unavailable()", given.unavailable))
        self._describes = "not there"
        if self._unavailable is None:
            if type(given).describe is Target.describe:
                raise Unusable("it does not define describe()")
            self._describes = _text("describe()", self._asked("describe()", given.describe))
            self.launches()

    def _asked(self, what: str, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit and pytest's own are no way out
            missing = isinstance(error, AttributeError) and not what.endswith(")") and error.obj is self.given
            said = f"it has no {what}" if missing else f"its {what} raised {located(error)}"
            raise Unusable(said) from error

    @property
    def is_gpu_code(self) -> bool:
        """See Target."""
        return bool(self.__dict__["_gpu_code"])

    def unavailable(self) -> str | None:
        """See Target."""
        return self._unavailable

    def describe(self) -> str:
        """See Target."""
        return self._describes

    def hindrance(self, capability: str) -> str | None:
        """See Target."""
        if capability not in self._hindrances:
            what = f"hindrance({capability!r})"
            said = self._asked(what, lambda: self.given.hindrance(capability))
            self._hindrances[capability] = _text_or_none(what, said)
        return self._hindrances[capability]

    def offers(self) -> frozenset[str]:
        """See Target."""
        return _offered("offers()", self._asked("offers()", self.given.offers))

    def receipt(self) -> dict[str, Any]:
        """See Target. Raises Unusable if the receipt is no dict, is too large or has no JSON form."""
        told = self._asked("receipt()", self.given.receipt)
        if not isinstance(told, Mapping):
            raise _wrong("receipt()", told, "a dict")
        receipt: dict[str, Any] = plain(told, "receipt()")
        if (size := len(json.dumps(receipt))) > MOST_BYTES:
            raise Unusable(f"its receipt() has {size:,} bytes as JSON; allowed are {MOST_BYTES:,}")
        return receipt

    def launches(self) -> Mapping[str, int] | None:
        """See Target."""
        return _counts("launches()", self._asked("launches()", self.given.launches))


def _delegating(operator: str) -> Callable[..., Any]:
    def call(self: Taken, *arguments: Any, **named: Any) -> Any:
        return getattr(self.given, operator)(*arguments, **named)

    call.__name__ = call.__qualname__ = operator
    call.__doc__ = "See Target."
    return call


for _operator in dict.fromkeys(OPERATORS.values()):
    setattr(Taken, _operator, _delegating(_operator))


def declarations(target: Target) -> dict[str, str]:
    """Return the attributes that a verdict rests on and that differ from the default: nan, profile, attends_in."""
    said = {
        "nan": (
            target.nan,
            Target.nan,
            {capability for bare, more, _ in GATHERS.values() for capability in (bare, more)},
        ),
        "profile": (target.profile.name, Target.profile.name, {*WRITES.values()}),
        "attends_in": (target.attends_in, Target.attends_in, {ATTEND}),
    }
    return {
        name: value
        for name, (value, usual, concerned) in said.items()
        if value != usual and not concerned.isdisjoint(target.capabilities)
    }
