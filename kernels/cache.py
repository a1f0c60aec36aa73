"""Keep finished builds in a cache folder. Each build is made once, also if several processes ask at the same time."""

import fcntl
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

ENVIRONMENT_VARIABLE = "NVFP4_MLA_CACHE"


class BuildError(RuntimeError):
    """Report that sources could not be built or loaded. The first line of the message gives the reason."""


def folder() -> Path:
    """Return the cache folder: $NVFP4_MLA_CACHE, else nvfp4-mla-conformance in the user's XDG cache folder."""
    chosen = os.environ.get(ENVIRONMENT_VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nvfp4-mla-conformance"


def cached(name: str, make: Callable[[Path], None]) -> Path:
    """Return the path of the file `name` in the cache folder. If it does not exist, `make` writes it.

    `make` receives the path to write to. The name must identify the content. If several processes ask, one makes the
    file and the others wait. A partly written file is never visible.

    Returns:
        The path of the finished file.

    Raises:
        BuildError: If the folder cannot be written. Exceptions of `make` pass through.

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
