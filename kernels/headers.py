"""Find the CUDA headers: in the folders of NVFP4_MLA_CUDA_INCLUDE, or in pip's nvidia-* packages.

An installed CUDA toolkit is never used, so that every machine builds with the versions that its environment pins.
"""

import hashlib
import importlib.util
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

ENVIRONMENT_VARIABLE = "NVFP4_MLA_CUDA_INCLUDE"

# A header that stands for its package, and the package's name for CUDA 13 and 12.
_PACKAGES = {
    "cuda_fp4.h": ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12>=12.8"),
    "crt/host_defines.h": ("nvidia-cuda-crt", "nvidia-cuda-nvcc-cu12>=12.8"),
    "nv/target": ("nvidia-cuda-cccl", "nvidia-cuda-cccl-cu12>=12.8"),
}
HOST_NEEDS = ("cuda_fp4.h", "crt/host_defines.h", "nv/target")
# NVRTC has the crt headers built in.
NVRTC_NEEDS = ("cuda_fp4.h", "nv/target")


class MissingHeaders(RuntimeError):
    """Report that a CUDA header was not found. The message names the packages that contain it."""


def include_dirs(
    needs: Sequence[str] = HOST_NEEDS, *, cuda_major: int | None = None, fallbacks: Iterable[Path] = ()
) -> tuple[Path, ...]:
    """Return the include folders, in order, that contain every header of `needs`.

    The folders of NVFP4_MLA_CUDA_INCLUDE come first, then pip's (`cuda_major` before others), then `fallbacks`.

    Returns:
        Folders for -I options.

    Raises:
        MissingHeaders: If a header is in no folder.

    """
    chosen = _from_environment()
    candidates = [*chosen, *_from_pip(cuda_major), *fallbacks]
    missing = []
    for header in needs:
        found = next((folder for folder in candidates if (folder / header).is_file()), None)
        if found is None:
            missing.append(header)
        elif found not in chosen:
            chosen.append(found)
    if missing:
        raise MissingHeaders(_advice(missing))
    return tuple(chosen)


def host_include_dirs() -> tuple[Path, ...]:
    """Return the include folders for an ordinary C++ compiler. Raises MissingHeaders if a header is in no folder."""
    return include_dirs(HOST_NEEDS)


def fingerprint(folders: Iterable[Path]) -> str:
    """Return a SHA-256, in hex, over the headers in `folders` that contain the number conversions."""
    digest = hashlib.sha256()
    for folder in folders:
        for header in sorted(folder.glob("cuda_[bf][fp]*.h*")):
            digest.update(header.name.encode() + b"\0" + header.read_bytes() + b"\0")
    return digest.hexdigest()


def _from_environment() -> list[Path]:
    value = os.environ.get(ENVIRONMENT_VARIABLE, "")
    return [Path(folder) for folder in value.split(os.pathsep) if folder]


def _from_pip(cuda_major: int | None) -> list[Path]:
    # `nvidia` is a namespace package: it may be spread over several site-packages folders.
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    folders = []
    for root in roots:
        # CUDA 13 has one folder, nvidia/cu13; the -cu12 packages have one each, nvidia/cuda_runtime and so on.
        merged = sorted(root.glob("cu[0-9]*/include"), key=lambda path: _major(path.parent.name), reverse=True)
        separate = sorted(set(root.glob("*/include")) - set(merged))
        for include in [*merged, *separate]:
            # CUDA 13 keeps nv/target one level deeper in some releases.
            folders += [include, include / "cccl"]
    if cuda_major is None:
        return folders
    wanted = [folder for folder in folders if _folder_major(folder) == cuda_major]
    return wanted + [folder for folder in folders if folder not in wanted]


def _major(name: str) -> int:
    digits = name.removeprefix("cu")
    return int(digits) if digits.isdigit() else 12


def _folder_major(include: Path) -> int:
    package = include.parent if include.name == "include" else include.parent.parent
    return _major(package.name)


def _advice(missing: Sequence[str]) -> str:
    cuda13 = " ".join(_PACKAGES[header][0] for header in missing)
    cuda12 = " ".join(f"'{_PACKAGES[header][1]}'" for header in missing)
    return (
        f"CUDA headers not found: {', '.join(missing)}; run `pip install {cuda13}` (CUDA 12: `pip install {cuda12}`) "
        f"or name their folders in {ENVIRONMENT_VARIABLE}"
    )
