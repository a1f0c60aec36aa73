"""Out of a hostile file comes BadFixture in a line, or a legal fixture; and never much memory goes into it."""

import json
import os
import pickle
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.selfcheck.forging import FIXTURES, Metadata, content_of, forged, mutations, verdict
from fixtures.store import BadFixture, load
from fixtures.stored_file import MOST_BYTES, MOST_HEADER, Array

QUICK = settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture
def measured() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def with_header(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def parts(content: bytes) -> tuple[Any, bytes]:
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


@pytest.mark.parametrize("name", FIXTURES)
def test_what_is_not_forged_is_a_fixture(name: str, tmp_path: Path, measured: None) -> None:
    assert verdict(content_of(name, tmp_path), tmp_path, memory=True) == ""


@pytest.mark.parametrize("name", ["merge", "plan"])
def test_a_file_cut_anywhere_is_none(name: str, tmp_path: Path) -> None:
    content = content_of(name, tmp_path)
    assert all(verdict(content[:end], tmp_path) for end in range(len(content)))


@pytest.mark.parametrize("name", ["gather", "context"])
def test_any_byte_of_a_header_may_be_another(name: str, tmp_path: Path) -> None:
    content = content_of(name, tmp_path)
    end = 8 + int.from_bytes(content[:8], "little")
    for at in range(end):
        verdict(content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :], tmp_path)


@pytest.mark.parametrize("name", FIXTURES)
def test_any_bytes_may_be_others(name: str, tmp_path: Path) -> None:
    content = content_of(name, tmp_path)

    @QUICK
    @given(st.integers(0, len(content)), st.integers(0, 40), st.binary(max_size=40))
    def check(at: int, without: int, put: bytes) -> None:
        verdict(content[:at] + put + content[at + without :], tmp_path)

    check()


@pytest.mark.parametrize("name", [name for name in FIXTURES if name != "generic gather"])
def test_any_part_of_a_case_may_be_something_else(name: str, tmp_path: Path, measured: None) -> None:
    content = content_of(name, tmp_path)
    header, data = parts(content)
    accepted = 0
    for case in mutations(json.loads(header["__metadata__"]["case"])):
        header["__metadata__"]["case"] = json.dumps(case)
        accepted += verdict(with_header(header, data), tmp_path, memory=True) == ""
    assert accepted or name == "none"


@pytest.mark.parametrize("name", ["merge", "none"])
def test_any_part_of_a_header_may_be_something_else(name: str, tmp_path: Path, measured: None) -> None:
    header, data = parts(content_of(name, tmp_path))
    for other in mutations(header):
        verdict(with_header(other, data), tmp_path, memory=True)


@pytest.mark.parametrize("name", ["gather", "generic gather", "write", "merge"])
def test_any_array_may_hold_something_else(name: str, tmp_path: Path) -> None:
    content = content_of(name, tmp_path)
    for array in (each for each in parts(content)[0] if each.startswith("case/")):
        for number in (-(1 << 63), -(1 << 31), -1, 0, 1, 2, 1 << 16, (1 << 31) - 1, (1 << 63) - 1):
            for at in (0, -1, slice(None)):

                def change(_: Metadata, arrays: dict[str, Array], to: Any = (array, at, number)) -> None:
                    numbers = arrays[to[0]].reshape(-1)
                    if numbers.size:
                        numbers[to[1]] = np.int64(to[2]).astype(numbers.dtype)

                verdict(forged(content, change), tmp_path)


BOMBS = {
    "deep lists": b"[" * 100_000 + b"]" * 100_000,
    "deep objects": b'{"a":' * 40_000 + b"1" + b"}" * 40_000,
    "twenty levels": b"[" * 20 + b"]" * 20,
    "wide lists": b"[" + b"[]," * 80_000 + b"[]]",
    "many names": b"{" + b",".join(b'"%d":[]' % n for n in range(20_000)) + b"}",
    "a long text": b'"' + b"x" * 200_000 + b'"',
    "a long number": b"9" * 4_000,
    "a very long number": b"9" * 200_000,
    "a number of 65 bits": b"9223372036854775808",
    "a number beyond binary64": b"1e999",
    "no number": b"NaN",
    "half a character": b'"\\ud800"',
    "a name twice": b'{"a": 1, "a": 1}',
    "no JSON": b"{",
}
NOTHING_BUT_LARGE = {"wide lists", "many names", "a long text"}


@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("at", ["header", "case", "about"])
def test_a_bomb_takes_little_memory(at: str, bomb: str, tmp_path: Path, measured: None) -> None:
    header, data = parts(content_of("plan", tmp_path))
    if at == "header":
        assert verdict(with_header(BOMBS[bomb]), tmp_path, memory=True)
        return
    header["__metadata__"][at] = '{"a":' + BOMBS[bomb].decode() + "}"
    legal = at == "about" and bomb in NOTHING_BUT_LARGE
    assert bool(verdict(with_header(header, data), tmp_path, memory=True)) != legal


def declared(dtype: str = "U8", shape: object = (0,), offsets: object = (0, 0)) -> bytes:
    return with_header({"expected/a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}, b"12345678")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "header"),
        (b"1234567", "header"),
        (pickle.dumps(FIXTURES["plan"].about), "header"),
        ((1 << 63).to_bytes(8, "little") + b"{}", "header has 9,223,372,036,854,775,808"),
        ((MOST_HEADER + 1).to_bytes(8, "little") + b"{}" + b" " * MOST_HEADER, "header has 262,145"),
        (with_header(b'{"\xff": 1}'), "utf-8"),
        (with_header([]), "no object"),
        (with_header({"__metadata__": []}), "metadata"),
        (with_header({"__metadata__": {"schema": 1}}), "texts"),
        (declared(shape=(1 << 60,), offsets=(0, 1 << 60)), "product"),
        (declared(shape=(0, 1 << 40, 1 << 40)), "product"),
        (declared(shape=(8,), offsets=(8, 16)), "lies at"),
        (declared(shape=(8,), offsets=(0, 16)), "lies at"),
        (declared(shape=(-8,), offsets=(0, 8)), "at least 0"),
        (declared(shape=(7,), offsets=(0, 7)), "7 bytes, and the file has 8"),
        (declared("BF16", (4,), (0, 8)), "BF16"),
        (declared("U8", (True,) * 8, (0, 8)), "at least 0"),
        (declared("U8", [[8]], (0, 8)), "at least 0"),
    ],
)
def test_what_is_no_file_of_arrays_is_no_fixture(content: bytes, told: str, tmp_path: Path, measured: None) -> None:
    assert told in verdict(content, tmp_path, memory=True)


@pytest.mark.parametrize("make", [lambda path: None, os.mkdir, os.mkfifo, lambda path: os.symlink(path, path)])
def test_what_is_no_regular_file_is_no_fixture(make: Callable[[Path], object], tmp_path: Path) -> None:
    make(tmp_path / "x")
    with pytest.raises(BadFixture, match="x: "):
        load(tmp_path / "x")


def test_a_file_that_is_too_long_is_not_read(tmp_path: Path, measured: None) -> None:
    with open(tmp_path / "x", "wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(BadFixture, match="allowed"):
        load(tmp_path / "x")
    assert tracemalloc.get_traced_memory()[1] < 1 << 20


def case(**changed: object) -> Callable[[Metadata, dict[str, Array]], None]:
    """Change fields of a case's plain part, a field of a field by names with two underscores."""

    def change(metadata: Metadata, arrays: dict[str, Array]) -> None:
        head = json.loads(metadata["case"])
        for name, value in changed.items():
            *path, last = name.split("__")
            at = head
            for step in path:
                at = at[step]
            assert last in at
            at[last] = value
        metadata["case"] = json.dumps(head)

    return change


def entries(name: str, at: Any, value: Any) -> Callable[[Metadata, dict[str, Array]], None]:
    def change(metadata: Metadata, arrays: dict[str, Array]) -> None:
        arrays[f"case/{name}"][at] = value

    return change


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("gather", lambda metadata, arrays: metadata.update(schema="2"), "schema"),
        ("gather", lambda metadata, arrays: metadata.update(operator="scatter"), "scatter"),
        ("gather", lambda metadata, arrays: metadata.update(poison="arsenic"), "arsenic"),
        ("gather", lambda metadata, arrays: metadata.update(extra=""), "extra"),
        ("plan", lambda metadata, arrays: metadata.update(case=metadata["case"][:-1] + ',"x":1}'), "unknown field 'x'"),
        ("gather", lambda metadata, arrays: arrays.update({"case/more": np.zeros(1, np.uint8)}), "more"),
        ("gather", lambda metadata, arrays: arrays.pop("case/records"), "records"),
        ("gather", lambda metadata, arrays: arrays.update({"case/entries": np.zeros(1, np.int64)}), "int64"),
        ("gather", entries("entries", 0, 99), "entries[0] is 99"),
        ("gather", entries("entries", 0, -1), "entries[0] is -1"),
        ("gather", entries("seq_starts", 0, -64), "seq_starts[0]"),
        ("gather", entries("workspace_starts", 0, 1), "workspace_starts[0] is 1"),
        ("gather", entries("workspace_starts", 1, -1), "workspace_starts[1] is -1"),
        ("gather", entries("places", 0, -1), "places[0] is -1"),
        ("gather", case(num_rows=1 << 22), "memory"),
        ("gather", case(num_rows=16), "the rows need"),
        ("gather", case(num_rows=-1), "num_rows is -1"),
        ("gather", case(blocks=1 << 30), "block"),
        ("gather", case(max_blocks=1 << 30), "memory"),
        ("gather", case(max_blocks=1), "block_table has 1 columns"),
        ("gather", case(block_size=1 << 40), "block_size"),
        ("gather", case(arrangement__spare_requests=1 << 40), "addresses"),
        ("gather", case(arrangement__cache_block_slack=3 << 25), "memory"),
        ("gather", case(arrangement__dst_row_slack=1 << 50), "addresses"),
        ("gather", case(arrangement__dst_row_slack=-8), "dst_row_slack"),
        ("gather", case(arrangement__dst_shift=1), "shifted"),
        ("gather", case(layout="bf16"), "layout"),
        ("write", entries("slot_mapping", 0, 1 << 40), "slot_mapping[0]"),
        ("write", entries("slot_mapping", slice(None), 1), "each slot once"),
        ("write", entries("kv_c", ..., 0x7F80), "finite"),
        ("write", case(num_blocks=1 << 20), "memory"),
        ("write", case(arrangement__cache_strides=[0, 656]), "overlap"),
        ("write", case(arrangement__cache_strides=[1 << 62, 1 << 62]), "addresses"),
        ("merge", entries("prefix_lse", (0, 0), np.nan), "prefix_lse[0, 0] is nan"),
        ("merge", case(arrangement__output={"outer": 0}), "inner"),
        ("merge", case(arrangement__output__strides=[0, 8]), "overlap"),
        ("merge", case(output_in="suffix_lse"), "output_in"),
        ("context", case(context_lens=[1 << 40, 0, 0]), "memory"),
        ("context", case(context_lens=[0, 20_000, 0], workspace_rows=4), "chunks"),
        ("context", case(workspace_rows=0), "workspace_rows"),
        ("context", case(sharding__ranks=1 << 30), "ranks"),
        ("context", case(context_lens=[]), "query_lens"),
        ("plan", case(context_lens=[1 << 40]), "chunks"),
        ("plan", case(padding=0), "padding"),
        ("metadata", case(context_lens=[1 << 40, 0, 0]), "tokens"),
        ("workspace", case(max_model_len=0), "max_model_len"),
        ("dispatch", case(site="nowhere"), "nowhere"),
        ("dispatch", case(context__context_lens=[1 << 13]), "block_table"),
        ("dispatch", case(context__workspace="int4"), "int4"),
    ],
)
def test_a_case_that_must_not_be_judged_is_refused_in_words(
    name: str, change: Callable[[Metadata, dict[str, Array]], object], told: str, tmp_path: Path, measured: None
) -> None:
    assert told in verdict(forged(content_of(name, tmp_path), change), tmp_path, memory=True)
