"""The machine code (SASS) of a kernel, as the text that nvdisasm writes of a cubin. No GPU is needed."""

import functools
import importlib.util
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from kernels import cross
from kernels.cache import BuildError
from kernels.host_build import explain
from kernels.kernel import Kernel

_INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z]\S*)(.*?)\s*;", re.M)
_STACK = re.compile(r"EIATTR_(?:FRAME|MIN_STACK)_SIZE\n(?:.*\n)*?.*index@\((\S+)\)\n.*\.word\s+(0x[0-9a-f]+)")
_TOUCHES_MEMORY = re.compile(r"LD(?!C)|ST|ATOM|RED|CCTL|U(?:BLK|TMA|RED)")
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "96": 12, "128": 16, "256": 32}


@dataclass(frozen=True)
class MachineCode:
    """The machine code of one cubin. `text` is what nvdisasm writes of it."""

    text: str

    @property
    def kernels(self) -> list[str]:
        """Return the names of the functions that have a section of code."""
        return re.findall(r"^\s*\.section\s+\.text\.(\w+)", self.text, re.M)

    @cached_property
    def instructions(self) -> list[tuple[str, str]]:
        """Return (opcode, operands) of each instruction, such as ("LDG.E.64", "R2, desc[UR6][R2.64+0x80]")."""
        return [(opcode, operands.strip()) for opcode, operands in _INSTRUCTION.findall(self.text)]

    @property
    def memory_instructions(self) -> set[str]:
        """Return the families of instructions that touch memory, such as "LDG". Loads of constants are left out."""
        return {opcode.split(".")[0] for opcode, _ in self.instructions if _TOUCHES_MEMORY.match(opcode)}

    @property
    def conversions(self) -> set[str]:
        """Return the opcodes that know a format of small floating-point numbers, such as e2m1."""
        return {opcode for opcode, _ in self.instructions if re.search(r"E\dM\d", opcode)}

    @property
    def loops(self) -> int:
        """Return how many branches with a condition lead back."""
        places = {label[1]: label.start() for label in re.finditer(r"^(\.L_x_\d+):", self.text, re.M)}
        branches = re.finditer(r"@!?U?P\d\s+BRA\b.*`\((\.L_x_\d+)\)", self.text)
        return sum(places[branch[1]] < branch.start() for branch in branches)

    def local_memory(self) -> list[str]:
        """Return whatever shows that the kernel uses local memory, be it for an array or for spilled registers."""
        lines = [f"{opcode} {operands}" for opcode, operands in self.instructions if opcode[:3] in ("LDL", "STL")]
        return lines + [f"{name}: {int(size, 16)} bytes" for name, size in _STACK.findall(self.text) if int(size, 16)]

    def widths(self, family: str) -> Counter[int]:
        """Return how many instructions of a family, "LDG" or "STG", move 1, 2, 4, 8 or 16 bytes for each lane."""
        opcodes = [opcode.split(".") for opcode, _ in self.instructions if opcode.split(".")[0] == family]
        return Counter(next((_BYTES[part] for part in parts if part in _BYTES), 4) for parts in opcodes)


def disassemble(image: bytes) -> MachineCode:
    """Return the machine code of a cubin; skip the test without nvdisasm.

    Raises:
        BuildError: nvdisasm refuses the cubin. The message ends with what it says.
    """
    found = nvdisasm()
    if found is None:
        pytest.skip("nvdisasm not found; run `pip install nvidia-cuda-nvdisasm`")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        # Without the analysis of branches, which costs a quarter of the time and changes none of these lines.
        done = subprocess.run([found, "--no-dataflow", file.name], capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(explain(f"{found} refuses the cubin", done.stderr or done.stdout))
    return MachineCode(done.stdout)


def nvdisasm() -> Path | None:
    """Return the newest nvdisasm of pip's packages, None without one."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    # One folder a major version, nvidia/cu13 and so on.
    found = [path for root in roots for path in root.glob("cu[0-9]*/bin/nvdisasm")]
    return max(found, key=lambda path: int(path.parent.parent.name.removeprefix("cu")), default=None)


@functools.cache
def machine_code(arch: str, kernel: Kernel, root: Path | None = None) -> MachineCode:
    """Return the machine code of a kernel of the sources below `root`, as NVRTC compiles it for `arch`.

    Errors: as of `cross.compile_for` and `disassemble`.
    """
    recipe = cross.recipe(arch, root, kernel)
    return disassemble(recipe.cached().read_bytes() if root is None else recipe.compile().image)
