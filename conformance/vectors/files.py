"""Make, check, pack, write and read the files of fixtures/vectors."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from conformance.spec import clauses
from conformance.vectors import (
    gathers,
    generic_gathers,
    merges,
    metadata,
    plans,
    records,
    scalars,
    shards,
    startups,
    writers,
)
from conformance.vectors.flags import FLAGS, Flag
from conformance.vectors.golden import Disputed
from conformance.vectors.vector import Json, Operator, Vector

FOLDER = Path(__file__).parents[2] / "fixtures/vectors"
SCHEMA_FILE = FOLDER / "schema.json"
SCHEMA = 1

OPERATORS: tuple[Operator, ...] = tuple(
    operator
    for module in (scalars, records, gathers, generic_gathers, writers, plans, metadata, shards, merges, startups)
    for operator in module.OPERATORS
)

_LONG_HEX = re.compile(r"[0-9a-f]{65,}")
_WIDTH = 120


def documents() -> Iterator[tuple[str, Json]]:
    """Yield each file's name and content. Raises Disputed if two sources disagree or a description is wrong."""
    for operator in OPERATORS:
        yield f"{operator.stem}.json", document(operator)


def document(operator: Operator) -> Json:
    """Return the content of an operator's file, not packed. Raises Disputed if a vector or its sources are wrong."""
    told = [_vector(operator, vector) for vector in operator.vectors]
    twice = [one for one, count in Counter(vector["id"] for vector in told).items() if count > 1]
    if twice:
        raise Disputed(f"{operator.stem}: two vectors have one input: {twice}")
    flags = {name: _told_of(FLAGS[name]) for name in FLAGS if any(name in vector.flags for vector in operator.vectors)}
    arrays = {name: {"type": kind, "shape": shape} for name, (kind, shape) in operator.arrays.items()}
    head: Json = {"schema": SCHEMA, "operator": operator.name}
    if operator.layout is not None:
        head["layout"] = operator.layout
    return {**head, "notes": operator.notes, "arrays": arrays, "flags": flags, "vectors": told}


def _told_of(flag: Flag) -> Json:
    return {"kind": flag.kind, "effect": flag.effect, "links": [*flag.links]}


def _vector(operator: Operator, vector: Vector) -> Json:
    where = f"{operator.stem}: {vector.comment}"
    unknown = [name for name in vector.flags if name not in FLAGS]
    if unknown or vector.clause not in clauses():
        raise Disputed(f"{where}: {[*unknown, vector.clause]} is not all known")
    expected = operator.expected(vector)
    if disputed := operator.disputes(vector, expected):
        raise Disputed("\n  ".join([where, *disputed]))
    about = {"clause": vector.clause, "flags": [*vector.flags], "comment": vector.comment, "source": vector.source}
    return {"id": operator.id_of(vector.input), **about, "input": vector.input, "expected": expected}


def packed(told: Json) -> Json:
    """Return a document with repeated hex texts moved to `bytes`, under names made of their SHA-256.

    A text of more than 64 digits that occurs more than once is moved.

    Returns:
        The packed document. The input is not changed.

    """
    counts = Counter(_hex_in(told["vectors"]))
    names = {one: f"#{hashlib.sha256(one.encode()).hexdigest()[:12]}" for one, count in counts.items() if count > 1}
    shared = {name: one for one, name in sorted(names.items(), key=lambda item: item[1])}
    vectors = _mapped(told["vectors"], lambda one: names.get(one, one))
    return {**told, **({"bytes": shared} if shared else {}), "vectors": vectors}


def unpacked(told: Json) -> Json:
    """Return a packed document with its names replaced by the hex texts again."""
    shared = told.get("bytes", {})
    vectors = _mapped(told["vectors"], lambda one: shared[one] if one.startswith("#") else one)
    return {**{name: one for name, one in told.items() if name != "bytes"}, "vectors": vectors}


def _hex_in(told: Any) -> Iterator[str]:
    if isinstance(told, str):
        if _LONG_HEX.fullmatch(told):
            yield told
    elif isinstance(told, dict | list):
        for one in told.values() if isinstance(told, dict) else told:
            yield from _hex_in(one)


def _mapped(told: Any, change: Callable[[str], str]) -> Any:
    if isinstance(told, dict):
        return {name: _mapped(one, change) for name, one in told.items()}
    if isinstance(told, list):
        return [_mapped(one, change) for one in told]
    return change(told) if isinstance(told, str) else told


def text_of(told: Any, indent: int = 0) -> str:
    """Return a value as JSON text of up to 120 columns.

    A list or an object that fits on one line stays on one line. So does a list of any length that holds no object.

    Returns:
        The text, without a newline at its end.

    """
    flat = json.dumps(told, ensure_ascii=True)
    objects = isinstance(told, dict) or (isinstance(told, list) and any(isinstance(one, dict) for one in told))
    if not told or not objects or len(flat) + indent <= _WIDTH:
        return flat
    step = indent + 1
    if isinstance(told, dict):
        members = [f"{json.dumps(name)}: {text_of(one, step)}" for name, one in told.items()]
        opening, closing = "{}"
    else:
        members = [text_of(one, step) for one in told]
        opening, closing = "[]"
    lines = f",\n{' ' * step}".join(members)
    return f"{opening}\n{' ' * step}{lines}\n{' ' * indent}{closing}"


def texts() -> dict[str, str]:
    """Return the text of each file by name. Raises Disputed if sources disagree or the schema forbids a document."""
    made = {name: packed(told) for name, told in documents()}
    for name, told in made.items():
        validate(name, told)
    return {name: f"{text_of(told)}\n" for name, told in made.items()}


def validate(name: str, told: Json) -> None:
    """Check a document by fixtures/vectors/schema.json. Raises Disputed, with the place, if it is not valid."""
    from jsonschema import Draft202012Validator

    error = next(Draft202012Validator(json.loads(SCHEMA_FILE.read_text())).iter_errors(told), None)
    if error is not None:
        raise Disputed(f"{name}, {error.json_path}: {error.message:.300}")


def stored() -> dict[str, Path]:
    """Return the stored files by name, without the schema."""
    return {path.name: path for path in sorted(FOLDER.glob("*.json")) if path != SCHEMA_FILE}


def load(path: Path) -> Json:
    """Return a stored document, unpacked."""
    return unpacked(json.loads(path.read_text()))
