"""Compile the CUDA sources to a cubin for any architecture, with NVRTC through CuPy. Needs no GPU and no driver."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import cache, headers, sources
from kernels.cache import BuildError
from kernels.catalog import DEFAULT, GATHERS
from kernels.host_build import explain
from kernels.kernel import Kernel
from kernels.layout import NVFP4_DS_MLA


@dataclass(frozen=True)
class Cubin:
    """Hold a compiled kernel: an ELF image for one architecture, and the compiler's log, which is often empty."""

    image: bytes
    log: str


@dataclass(frozen=True)
class Recipe:
    """Hold everything that a compilation depends on. `key` is a SHA-256 in hex of it; `arch` is like "sm_100a"."""

    arch: str
    source: Path
    options: tuple[str, ...]
    compiler: str
    sources_sha256: str
    key: str

    def cached(self) -> Path:
        """Return the cubin's path in the cache. Compiles it first if it is missing. Raises the errors of `compile`."""
        return cache.cached(f"{self.source.stem}-{self.key[:32]}.cubin", self._write)

    def _write(self, path: Path) -> None:
        path.write_bytes(self.compile().image)

    def compile(self) -> Cubin:
        """Run NVRTC and return the cubin. Raises BuildError with the first lines of the compiler's log."""
        nvrtc = _nvrtc()
        program = nvrtc.createProgram(self.source.read_text(), self.source.name, (), ())
        try:
            try:
                nvrtc.compileProgram(program, self.options)
            except nvrtc.NVRTCError as error:
                log = nvrtc.getProgramLog(program) or str(error)
                raise BuildError(explain(f"{self.compiler} cannot build {self.source} for {self.arch}", log)) from None
            return Cubin(restore_last_byte(nvrtc.getCUBIN(program)), nvrtc.getProgramLog(program))
        finally:
            nvrtc.destroyProgram(program)


def recipe(arch: str, root: Path | None = None, kernel: Kernel | str = DEFAULT) -> Recipe:
    """Return how to compile a kernel for `arch`, such as "sm_90", "sm_100a", "sm_103a" or "sm_120a".

    `kernel` may be the name of a gather kernel. Raises BuildError without CuPy or NVRTC, and headers.MissingHeaders
    without CUDA headers.

    Returns:
        The recipe; nothing is compiled yet.

    """
    root = sources.sources_root(root)
    nvrtc = _nvrtc()
    version = nvrtc.getVersion()
    includes = headers.include_dirs(headers.NVRTC_NEEDS, cuda_major=version[0], fallbacks=_bundled_with_cupy())
    kernel = GATHERS[kernel] if isinstance(kernel, str) else kernel
    source = root / kernel.source
    compiler = "NVRTC {}.{}".format(*version)
    flags = (f"-arch={arch}", "-std=c++17", *NVFP4_DS_MLA.defines(), *kernel.defines)
    paths = (f"-I{source.parent}", *(f"-I{folder}" for folder in includes))
    return Recipe(
        arch=arch,
        source=source,
        options=(*flags, *paths),
        compiler=compiler,
        sources_sha256=sources.sources_sha256(root),
        key=sources.build_key(root, source.name, *flags, compiler, headers.fingerprint(includes)),
    )


def compile_for(arch: str, root: Path | None = None, kernel: Kernel | str = DEFAULT) -> Cubin:
    """Compile a kernel, or the gather kernel of that name, to a cubin. Raises as `recipe` and `Recipe.compile` do."""
    return recipe(arch, root, kernel).compile()


def restore_last_byte(image: bytes) -> bytes:
    """Return the complete ELF image. CuPy's getCUBIN returns it without its last byte.

    The driver accepts the shorter image, but disassemblers refuse the file. The image ends with a table whose last
    field is a small 64-bit number, so that the missing byte is 0.

    Returns:
        The image with the byte appended, or unchanged if it is complete.

    Raises:
        BuildError: If more than one byte is missing.

    """
    program_headers, section_headers = struct.unpack_from("<QQ", image, 32)
    program_size, programs, section_size, sections = struct.unpack_from("<HHHH", image, 54)
    size = max(program_headers + program_size * programs, section_headers + section_size * sections)
    if len(image) < size - 1:
        raise BuildError(f"NVRTC's cubin has {len(image)} bytes where its header tells of {size}")
    return image.ljust(size, b"\0")


def _nvrtc() -> Any:
    try:
        from cupy.cuda import nvrtc

        nvrtc.getVersion()  # the library itself is loaded here
    except (ImportError, RuntimeError) as error:
        advice = "run `pip install cupy-cuda13x 'cuda-toolkit[nvrtc,cudart]'`"
        raise BuildError(f"compiling CUDA needs CuPy and NVRTC: {error}; {advice}") from error
    return nvrtc


def _bundled_with_cupy() -> tuple[Path, ...]:
    # CuPy brings nv/target, which its own kernels need too, so that nvidia-cuda-cccl is not missed.
    import cupy

    return (Path(cupy.__file__).parent / "_core/include/cupy/_cccl/libcudacxx",)
