"""Where the CUDA and C++ sources are, and the hashes that say which sources and which build a result belongs to.

A sources root is a folder that holds cuda/ and host/. The default is this package; a builder takes another one, so that
a changed copy can be judged.
"""

import hashlib
from pathlib import Path

DEFAULT_ROOT = Path(__file__).resolve().parent


def sources_root(root: Path | None) -> Path:
    """Return `root`, absolute, or the default for None; raise FileNotFoundError if it holds no cuda/ or no host/."""
    if root is None:
        return DEFAULT_ROOT
    for folder in ("cuda", "host"):
        if not (root / folder).is_dir():
            raise FileNotFoundError(f"{root} is no folder of kernel sources: it has no {folder}/ in it")
    return root.resolve()


def sources_sha256(root: Path) -> str:
    """Return a SHA-256, in hex, over names and contents of the sources below `root`, wherever that is."""
    digest = hashlib.sha256()
    for path in sorted(path for folder in ("cuda", "host") for path in (root / folder).rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()


def build_key(root: Path, *parts: str) -> str:
    """Return a SHA-256, in hex, over the sources below `root` and `parts`, which name flags, compiler and headers."""
    return hashlib.sha256("\0".join((sources_sha256(root), *parts)).encode()).hexdigest()
