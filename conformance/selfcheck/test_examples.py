"""Failing cases are kept and tried first by the next run, which changes neither what a seed draws nor a verdict."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis.database import (
    DirectoryBasedExampleDatabase,
    ExampleDatabase,
    GitHubArtifactDatabase,
    InMemoryExampleDatabase,
    MultiplexedDatabase,
    ReadOnlyDatabase,
)

from conformance.drawing import asking, for_each
from conformance.examples import BadExamples, OfOneTest, database_at
from conformance.judge import Judge
from conformance.remarks import remarks
from conformance.running.examples import place_of, uncounted, unwritable
from conformance.selfcheck.running import gate
from conformance.strategies import gather_cases
from conformance.targets.models import NumpyTarget
from fixtures.cases import GatherCase

SEEN_BEFORE = "it is kept from an earlier run, and was tried before this run's own cases"

MOODY = """
import os
from conformance.targets.models import NumpyTarget

class Moody(NumpyTarget):
    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache, dst, *args, **named):
        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *args, **named)
        if os.environ["MOOD"] == "bad" and len(dst) > 70:
            dst[70, 3] ^= 1
"""


def aligned_alone(case: GatherCase) -> None:
    assert case.seq_starts is not None
    if (case.seq_starts % case.block_size).any():
        raise AssertionError(repr(case))


def drawn(seed: int, check: Callable[[GatherCase], None] = lambda case: None, **more: Any) -> list[str]:
    """What is tried, in order, up to a failure."""
    seen: list[str] = []

    def noted(case: GatherCase) -> None:
        seen.append(repr(case))
        check(case)

    with asking(**more):
        for_each(gather_cases(with_starts=True), 40, seed, noted)
    return seen


def failed(seed: int, kept: ExampleDatabase) -> AssertionError:
    with pytest.raises(AssertionError) as raised:
        drawn(seed, aligned_alone, kept=kept)
    return raised.value


def values(database: InMemoryExampleDatabase) -> int:
    return sum(map(len, database.data.values()))


def test_what_failed_is_tried_first_by_a_run_with_another_seed() -> None:
    database = InMemoryExampleDatabase()
    first = failed(1, database)
    assert remarks(first) == [] and values(database) > 0
    tried: list[str] = []

    def check(case: GatherCase) -> None:
        tried.append(repr(case))
        aligned_alone(case)

    with pytest.raises(AssertionError) as again, asking(kept=database):
        for_each(gather_cases(with_starts=True), 40, 2, check)
    assert remarks(again.value) == [SEEN_BEFORE]
    assert set(tried) == {str(first)} == {str(again.value)}


def test_the_cases_of_a_seed_are_the_same_whatever_is_kept() -> None:
    alone = drawn(5)
    assert len(alone) == 40
    assert drawn(5, kept=InMemoryExampleDatabase()) == alone
    database = InMemoryExampleDatabase()
    failed(1, database)
    count = values(database)
    with_kept = drawn(5, kept=database)
    assert with_kept[-40:] == alone and len(with_kept) == 40 + count


def test_what_cannot_be_deleted_does_not_come_between_the_cases() -> None:
    database = InMemoryExampleDatabase()
    failed(1, database)
    assert drawn(5, kept=ReadOnlyDatabase(database)) == drawn(5, kept=ReadOnlyDatabase(database))
    assert drawn(5, kept=ReadOnlyDatabase(database))[-40:] == drawn(5)


def test_what_no_longer_fails_is_kept_no_longer() -> None:
    database = InMemoryExampleDatabase()
    failed(1, database)
    drawn(5, kept=database)
    assert values(database) == 0


def test_each_test_and_target_has_its_own() -> None:
    shared, told = InMemoryExampleDatabase(), list[str]()
    one, other = (OfOneTest(shared, f"test_random[{name}]", told.append) for name in ("host", "cuda"))
    failed(1, one)
    assert values(shared) > 0
    before = values(shared)
    assert drawn(5, kept=other) == drawn(5) and values(shared) == before
    assert remarks(failed(2, one)) == [SEEN_BEFORE] and not told


class Broken(InMemoryExampleDatabase):
    def save(self, key: bytes, value: bytes) -> None:
        raise ConnectionError("no route to host")

    def fetch(self, key: bytes) -> Iterable[bytes]:
        raise ConnectionError("no route to host")


def test_trouble_with_a_database_is_told_once_and_changes_no_verdict() -> None:
    told: list[str] = []
    kept = OfOneTest(Broken(), "test", told.append)
    assert drawn(5, kept=kept) == drawn(5)
    assert remarks(failed(1, kept)) == []
    assert told == ["ConnectionError: no route to host"]


def test_kept_cases_are_not_counted() -> None:
    database, judge = InMemoryExampleDatabase(), Judge(NumpyTarget())
    failed(1, database)
    item: Any = SimpleNamespace(funcargs={"judge": judge})
    with asking(kept=database, aside=lambda: uncounted(item)):
        for_each(gather_cases(with_starts=True), 10, 5, judge)
    assert judge.count.cases == 10
    failed(1, database)
    with asking(kept=database, aside=nullcontext):
        for_each(gather_cases(with_starts=True), 10, 5, judge)
    assert judge.count.cases > 20


def test_a_place_is_a_folder_nothing_or_an_artifact_beside_a_folder(tmp_path: Path) -> None:
    assert database_at("", tmp_path) is None
    assert database_at("some/where", tmp_path) == DirectoryBasedExampleDatabase(tmp_path / "some/where")
    local = DirectoryBasedExampleDatabase(tmp_path / ".hypothesis/examples")
    for where, artifacts in (
        ("github:a/b", GitHubArtifactDatabase("a", "b")),
        ("github:a-1/b.c:kept", GitHubArtifactDatabase("a-1", "b.c", "kept")),
    ):
        assert database_at(where, tmp_path) == MultiplexedDatabase(local, ReadOnlyDatabase(artifacts))


@pytest.mark.parametrize(
    "where", ["github:a", "github:a/b:c/d", "github:", "redis:", "redis://host/x", "s3://bucket", "github:a/b:", "file"]
)
def test_a_place_that_is_none_is_a_usage_error(where: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadExamples, match=r"--examples is '.*allowed are a folder, github:OWNER/REPO or"):
        database_at(where, tmp_path)


def test_redis_without_its_package_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.delitem(sys.modules, "hypothesis.extra.redis", raising=False)
    with pytest.raises(BadExamples, match=r'pip install "nvfp4-mla-conformance\[redis\]"'):
        database_at("redis://localhost:6379/0", tmp_path)


class Redis:
    """What hypothesis uses of a server."""

    def __init__(self, url: str) -> None:
        self.url, self.sets = url, dict[bytes, set[bytes]]()

    @classmethod
    def from_url(cls, url: str, **how: Any) -> Redis:
        return cls(url)

    def pipeline(self) -> Any:
        done: list[int] = []

        def sadd(key: bytes, value: bytes) -> None:
            done.append(value not in self.sets.setdefault(key, set()))
            self.sets[key].add(value)

        def srem(key: bytes, value: bytes) -> None:
            done.append(value in self.sets.get(key, ()))
            self.sets.get(key, set()).discard(value)

        def smembers(key: bytes) -> None:
            done.append(set(self.sets.get(key, ())))  # type: ignore[arg-type]

        return SimpleNamespace(
            sadd=sadd, srem=srem, smembers=smembers, expire=lambda *_: done.append(1), execute=lambda: done
        )

    def publish(self, *_: Any) -> None:
        pass


def test_redis_keeps_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    redis: Any = ModuleType("redis")
    redis.Redis = Redis
    monkeypatch.setitem(sys.modules, "redis", redis)
    monkeypatch.delitem(sys.modules, "hypothesis.extra.redis", raising=False)
    try:
        database = database_at("redis://somewhere:6379/3", tmp_path)
    finally:
        sys.modules.pop("hypothesis.extra.redis", None)
    assert database is not None and database.redis.url == "redis://somewhere:6379/3"  # type: ignore[attr-defined]
    failed(1, database)
    assert remarks(failed(2, database)) == [SEEN_BEFORE]


def test_a_folder_that_cannot_be_written_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert unwritable("some/where", tmp_path) == "" == unwritable("", tmp_path)

    def refuses(dir: Path) -> None:
        raise PermissionError(f"not in {dir}")

    monkeypatch.setattr("conformance.running.examples.TemporaryFile", refuses)
    assert unwritable("some/where", tmp_path) == f"PermissionError: not in {tmp_path}"


@pytest.mark.parametrize(
    ("examples", "dump_dir", "where"),
    [(None, "dumps", ".hypothesis/examples"), (None, "", ""), ("", "dumps", ""), ("kept", "", "kept")],
)
def test_a_run_that_leaves_no_fixtures_keeps_no_examples_unless_told(
    examples: str | None, dump_dir: str, where: str
) -> None:
    config: Any = SimpleNamespace(getoption={"--examples": examples, "--dump-dir": dump_dir}.__getitem__)
    assert place_of(config) == where


def test_an_example_outlives_its_run_until_the_target_conforms(tmp_path: Path) -> None:
    (tmp_path / "moody.py").write_text(MOODY)
    kept = tmp_path / "kept"
    args = ("--target", "moody:Moody", "conformance/gate/test_random.py", "-k", "with_starts and 0]")

    def run(mood: str, seed: str) -> str:
        done = gate(*args, "--seed", seed, "--examples", str(kept), PYTHONPATH=str(tmp_path), MOOD=mood)
        assert done.returncode == (1 if mood == "bad" else 0), done.stdout
        return done.stdout

    assert SEEN_BEFORE not in run("bad", "1")
    assert any(kept.iterdir())
    assert SEEN_BEFORE in run("bad", "2")
    run("good", "3")
    assert not any(path.is_file() for path in kept.rglob("*"))
