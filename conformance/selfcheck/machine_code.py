"""The kernels as NVRTC compiles them, or changed copies of them, with what their machine code shows."""

import functools
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from kernels import cross, sources
from kernels.catalog import GATHERS
from kernels.disassembly import Instruction, MissingDisassembler, disassemble, nvdisasm
from kernels.elf import Image
from kernels.kernel import Kernel
from kernels.lanes import Access, accesses


@dataclass(frozen=True)
class MachineCode:
    """A kernel as it was compiled for one architecture."""

    image: Image
    code: tuple[Instruction, ...]
    accesses: tuple[Access, ...]

    def local_memory(self) -> list[str]:
        """Return whatever shows that it uses local memory, be it for an array or for spilled registers."""
        lines = [str(line) for line in self.code if line.name in ("LDL", "STL")]
        return lines + [f"{name}: {size} bytes" for name, size in self.image.stack_bytes.items() if size]

    def patterns(self, kind: str) -> dict[str, int]:
        """Return how often a warp loads or stores in which pattern, without loads of the same bytes by all lanes."""
        found = [access for access in self.accesses if access.kind == kind]
        return Counter(access.pattern for access in found if kind == "store" or not access.uniform)

    def conversions(self) -> set[str]:
        """Return the instructions that know a format of small floating-point numbers."""
        return {line.opcode for line in self.code if re.search(r"E\dM\d", line.opcode)}


@functools.cache
def compiled(arch: str, kernel: Kernel | str, root: Path | None = None) -> Image:
    """Return a kernel of the sources below `root`, or the gather of that name, as NVRTC compiles it for `arch`.

    Errors: as of `cross.compile_for`.
    """
    recipe = cross.recipe(arch, root, kernel)
    return Image(recipe.cached().read_bytes() if root is None else recipe.compile().image)


@functools.cache
def machine_code(arch: str, kernel: Kernel | str, root: Path | None = None) -> MachineCode:
    """Return what `compiled` returns, disassembled; errors as of `disassemble` and `accesses` too."""
    skip_without_nvdisasm()
    image = compiled(arch, kernel, root)
    symbol = (GATHERS[kernel] if isinstance(kernel, str) else kernel).symbol
    code = disassemble(image.image)[symbol]
    return MachineCode(image, code, tuple(accesses(code, dict(image.symbols))))


def skip_without_nvdisasm() -> None:
    """Skip the test, naming the package that it lacks."""
    try:
        nvdisasm()
    except MissingDisassembler as missing:
        pytest.skip(str(missing))


def changed(folder: Path, kernel: str, old: str, new: str) -> Path:
    """Return `folder` with a copy of the sources in which `old`, which a kernel's text has once, is `new`."""
    for part in ("cuda", "host"):
        shutil.copytree(sources.DEFAULT_ROOT / part, folder / part)
    source = folder / GATHERS[kernel].source
    text = source.read_text()
    assert text.count(old) == 1, f"{source} has {text.count(old)} times: {old}"
    source.write_text(text.replace(old, new))
    return folder
