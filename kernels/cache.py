"""The folder in which finished builds are kept, each made once, however many processes ask for it at a time."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

ENVIRONMENT_VARIABLE = "NVFP4_MLA_CACHE"


class BuildError(RuntimeError):
    """Sources could not be turned into something that runs; the first line of the message says what and why."""


def folder() -> Path:
    """Return the cache folder: $NVFP4_MLA_CACHE, else nvfp4-mla-conformance in the user's XDG cache folder."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nvfp4-mla-conformance"


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """Return the file `name` of the cache folder; if it is not there yet, `make` writes it to the path it is given.

    The name must identify the content. Of several processes one makes the file and the others wait; nobody ever sees a
    part of it. Raises BuildError if the folder cannot be written, and whatever `make` raises.
    """
    path = folder() / name
    if path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = (path.parent / f"{name}.lock").open("w")
        fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed, also if the process dies
    except OSError as error:
        raise BuildError(f"cannot write to the cache: {error}; choose another with {ENVIRONMENT_VARIABLE}") from error
    with lock:
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=path.parent, prefix="build-") as scratch:
                unfinished = Path(scratch) / name
                make(unfinished)
                unfinished.replace(path)
    return path
