"""Where failing cases are kept between runs: hypothesis's example databases, by the name that --examples gives them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from hypothesis.database import (
    DirectoryBasedExampleDatabase,
    ExampleDatabase,
    GitHubArtifactDatabase,
    MultiplexedDatabase,
    ReadOnlyDatabase,
)

FOLDER = ".hypothesis/examples"
ARTIFACT = "hypothesis-example-db"  # as hypothesis itself calls it
ALLOWED = 'a folder, github:OWNER/REPO or github:OWNER/REPO:ARTIFACT, redis://HOST:PORT/DB, or "" for none'

Answer = TypeVar("Answer")


class BadExamples(ValueError):
    """What --examples says cannot be used; the text names the option, what was found and what is allowed."""


def database_at(where: str, root: Path) -> ExampleDatabase | None:
    """The database that --examples names, with folders below `root`; None for ""; BadExamples if it names none.

    Nothing is opened yet: trouble with a folder, a server or a network comes with the first use.
    """
    if not where:
        return None
    if where.startswith("github:"):
        return _with_artifacts(where, root)
    if where.startswith(("redis:", "rediss:")):
        return _on_redis(where)
    if re.match(r"[a-z0-9+]+:", where):
        raise _bad(where)
    folder = root / where
    if folder.exists() and not folder.is_dir():
        raise _bad(where, "which is no folder")
    return DirectoryBasedExampleDatabase(folder)


def _with_artifacts(where: str, root: Path) -> ExampleDatabase:
    found = re.fullmatch(r"github:([\w.-]+)/([\w.-]+)(?::([\w.-]+))?", where)
    if not found:
        raise _bad(where)
    owner, repository, artifact = found.groups()
    shared = GitHubArtifactDatabase(owner, repository, artifact or ARTIFACT)
    return MultiplexedDatabase(DirectoryBasedExampleDatabase(root / FOLDER), ReadOnlyDatabase(shared))


def _on_redis(where: str) -> ExampleDatabase:
    if not re.fullmatch(r"rediss?://[^/\s]+(/\d+)?", where):
        raise _bad(where)
    try:
        from hypothesis.extra.redis import RedisExampleDatabase
        from redis import Redis
    except ImportError as error:
        raise _bad(where, 'which takes the redis package: pip install "nvfp4-mla-conformance[redis]"') from error
    try:
        server = Redis.from_url(where, socket_connect_timeout=SECONDS, socket_timeout=SECONDS)
    except ValueError as error:
        raise _bad(where, str(error)) from error
    return RedisExampleDatabase(server)


SECONDS = 5
"""How long a server may take to answer."""


def _bad(where: str, because: str = "which names no place for examples") -> BadExamples:
    return BadExamples(f"--examples is {where!r}, {because}; allowed are {ALLOWED}")


class OfOneTest(ExampleDatabase):
    """The part of a database that belongs to one test on one target: every key begins with its name.

    Trouble costs examples and no verdict: after the first, which is told of, the database is left alone.
    """

    def __init__(self, shared: ExampleDatabase, name: str, trouble: Callable[[str], None]) -> None:
        """`name` is to tell all tests and targets apart."""
        super().__init__()
        self._shared: ExampleDatabase | None = shared
        self._name, self._trouble = name.encode(), trouble

    def fetch(self, key: bytes) -> Iterable[bytes]:
        """What is kept under a key."""
        return self._try(lambda shared: list(shared.fetch(self._named(key))), [])

    def save(self, key: bytes, value: bytes) -> None:
        """Keep a value under a key."""
        self._try(lambda shared: shared.save(self._named(key), value), None)

    def delete(self, key: bytes, value: bytes) -> None:
        """Keep it no longer."""
        self._try(lambda shared: shared.delete(self._named(key), value), None)

    def _named(self, key: bytes) -> bytes:
        return self._name + b" " + key

    def _try(self, use: Callable[[ExampleDatabase], Answer], otherwise: Answer) -> Answer:
        if self._shared is None:
            return otherwise
        try:
            return use(self._shared)
        except Exception as error:
            self._shared = None
            self._trouble(f"{type(error).__name__}: {error}")
            return otherwise
