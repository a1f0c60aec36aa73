"""Replace names in a module for a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(module: dict[str, Any], instead: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Replace those names of `instead` that the module has. Yields the previous values and restores them."""
    before = {name: module[name] for name in instead if name in module}
    module.update({name: instead[name] for name in before})
    try:
        yield before
    finally:
        module.update(before)
