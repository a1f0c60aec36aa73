"""Which tests judge which clause, as pytest collects them."""

from __future__ import annotations

import contextlib
import functools
import io
from pathlib import Path

import pytest

from conformance.spec import SPEC

HERE = Path(__file__).parent


class Seen:
    """A plugin that notes the clauses of all tests before any is left out."""

    def __init__(self) -> None:
        """Nothing is noted yet."""
        self.tests: dict[str, dict[str, None]] = {}

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        """Note it."""
        module = Path(item.path).relative_to(HERE)
        name = f"{module}::{getattr(item, 'originalname', item.name)}"
        for mark in item.iter_markers("clause"):
            for clause in mark.args:
                self.tests.setdefault(str(clause), {})[name] = None


@functools.cache
def tests_by_clause() -> dict[str, list[str]]:
    """The tests of the gate and of the selfcheck by the clauses that they are marked with."""
    seen, said = Seen(), io.StringIO()
    arguments = ["--collect-only", "-q", "-p", "no:cacheprovider", "--rootdir", str(SPEC.parent), "--target", "numpy"]
    with contextlib.redirect_stdout(said):
        code = pytest.main([*arguments, str(HERE / "gate"), str(HERE / "selfcheck")], plugins=[seen])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise RuntimeError(f"the tests cannot be collected:\n{said.getvalue()[-2000:]}")
    return {clause: list(tests) for clause, tests in seen.tests.items()}
