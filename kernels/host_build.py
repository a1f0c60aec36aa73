"""Build the CUDA sources as a shared library for the CPU, with an ordinary C++ compiler."""

import ctypes
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from kernels import cache, headers, sources
from kernels.cache import BuildError as BuildError  # also to be imported from here
from kernels.layout import NVFP4_DS_MLA

# -ffp-contract=off and no -ffast-math: a product is rounded by itself and a NaN stays one, as on the GPU.
# -fno-strict-aliasing: CUDA code reads bytes as words and words as pairs of bf16.
FLAGS = (
    "-std=c++17",
    "-O2",
    "-ffp-contract=off",
    "-fno-strict-aliasing",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-pthread",
)
_LINES_SHOWN = 8


@dataclass(frozen=True)
class HostLibrary:
    """Hold a loaded shared library, its path, and the build's facts. Hashes are SHA-256 in hex."""

    library: ctypes.CDLL
    path: Path
    compiler: str
    flags: tuple[str, ...]
    sources_sha256: str
    binary_sha256: str


def build(source: str, root: Path | None = None, defines: tuple[str, ...] = ()) -> HostLibrary:
    """Load `source`, a C++ file below the sources root such as "host/scalars.cpp". Builds it unless the cache has it.

    `defines` are -D options added to those of the record layout. Raises BuildError with the compiler's first lines, and
    headers.MissingHeaders.

    Returns:
        The loaded library.

    """
    root = sources.sources_root(root)
    command = compiler()
    identity = compiler_version()
    includes = headers.host_include_dirs()
    flags = (*FLAGS, *NVFP4_DS_MLA.defines(), *defines)
    key = sources.build_key(root, source, *flags, identity, platform.machine(), headers.fingerprint(includes))

    def compile_to(target: Path) -> None:
        # CUDA's headers as system headers: their warnings are not about these sources.
        paths = [argument for folder in includes for argument in ("-isystem", str(folder))]
        _compile([*command, *flags, *paths, str(root / source), "-o", str(target)], root / source)

    path = cache.cached(f"{Path(source).stem}-{key[:32]}.so", compile_to)
    return HostLibrary(
        library=ctypes.CDLL(str(path)),
        path=path,
        compiler=identity,
        flags=flags,
        sources_sha256=sources.sources_sha256(root),
        binary_sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
    )


def compiler() -> tuple[str, ...]:
    """Return the command of the C++ compiler: $CXX, else g++, c++ or clang++. Raises BuildError without a compiler."""
    chosen = os.environ.get("CXX")
    if chosen:
        try:
            return tuple(shlex.split(chosen))
        except ValueError as error:
            raise BuildError(f"CXX is {chosen!r}, which is no command: {error}") from error
    for name in ("g++", "c++", "clang++"):
        if shutil.which(name):
            return (name,)
    raise BuildError("no C++ compiler found: install g++ or clang++, or name one in CXX")


def compiler_version() -> str:
    """Return the first line that the C++ compiler prints for --version. Raises BuildError if it cannot be run."""
    return _identity(compiler())


@functools.cache
def _identity(command: tuple[str, ...]) -> str:
    try:
        version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(f"cannot run the C++ compiler {shlex.join(command)}: {error}") from error
    return version.partition("\n")[0]


def _compile(command: list[str], source: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(explain(f"{command[0]} cannot build {source}", done.stderr or done.stdout))


def explain(headline: str, log: str) -> str:
    """Return `headline` with the compiler's first error on the same line, and the next lines of its log below."""
    lines = [line for line in log.splitlines() if line.strip()] or ["no message"]
    start = next((number for number, line in enumerate(lines) if "error" in line), 0)
    return "\n  ".join([f"{headline}: {lines[start].strip()}", *lines[start + 1 : start + _LINES_SHOWN]])
