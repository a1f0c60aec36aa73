"""Find the CUDA and C++ sources, and hash them to identify the sources and the build of a result.

A sources root is a folder with cuda/ and host/. The default is this package. A builder accepts another root, so that a
changed copy can be judged.
"""

import hashlib
import shutil
from pathlib import Path

DEFAULT_ROOT = Path(__file__).resolve().parent


def sources_root(root: Path | None) -> Path:
    """Return `root`, absolute, or the default for None. Raises FileNotFoundError if it has no cuda/ or no host/."""
    if root is None:
        return DEFAULT_ROOT
    for folder in ("cuda", "host"):
        if not (root / folder).is_dir():
            raise FileNotFoundError(f"{root} is no folder of kernel sources: it has no {folder}/ in it")
    return root.resolve()


def sources_sha256(root: Path) -> str:
    """Return a SHA-256, in hex, over relative names and contents of the sources below `root`."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in ("cuda", "host") for path in (root / folder).rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def build_key(root: Path, *parts: str) -> str:
    """Return a SHA-256, in hex, over the sources below `root` and `parts`, which name flags, compiler and headers."""
    return hashlib.sha256("\0".join((sources_sha256(root), *parts)).encode()).hexdigest()


def copy_sources(folder: Path) -> Path:
    """Copy the sources into a folder, to be changed there. Return the folder, which is a sources root then."""
    for part in ("cuda", "host"):
        shutil.copytree(DEFAULT_ROOT / part, folder / part)
    return folder


def changed_sources(folder: Path, file: str, *changes: tuple[str, str]) -> Path:
    """Copy the sources into a folder, and in one file of the copy replace each `old` by its `new`. Return the folder.

    Raises:
        ValueError: an `old` does not occur exactly once in the file.
    """
    path = copy_sources(folder) / file
    text = path.read_text()
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} stands {text.count(old)} times in {file}")
        text = text.replace(old, new)
    path.write_text(text)
    return folder
