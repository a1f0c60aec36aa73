"""Other things under a module's names, for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(module: dict[str, Any], instead: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Let a module's code see other things under those of the names that it has; what was there before."""
    before = {name: module[name] for name in instead if name in module}
    module.update({name: instead[name] for name in before})
    try:
        yield before
    finally:
        module.update(before)
