"""The machine code (SASS) in a cubin, by the nvdisasm of pip's nvidia-cuda-nvdisasm; no GPU is needed."""

import importlib.util
import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from kernels.cache import BuildError
from kernels.host_build import explain

PACKAGE = "nvidia-cuda-nvdisasm"
INSTRUCTION_BYTES = 16


class MissingDisassembler(BuildError):
    """There is no nvdisasm; the message names the package that brings it."""


@dataclass(frozen=True)
class Instruction:
    """One instruction as nvdisasm writes it.

    `offset` counts bytes from the start of its section. `predicate` is like "P0" or "!UP1", "" without one. `opcode`
    has its modifiers: "LDG.E.64". An operand is like "R2", "-R3.reuse", "c[0x0][0x210]" or "desc[UR6][R2.64+0x80]".
    `branches`: it is about which instruction comes next, and computes nothing.
    """

    offset: int
    predicate: str
    opcode: str
    operands: tuple[str, ...]
    branches: bool

    @property
    def name(self) -> str:
        """The opcode without its modifiers."""
        return self.opcode.split(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """What follows the name of the opcode."""
        return tuple(self.opcode.split(".")[1:])

    @property
    def width(self) -> int:
        """How many bytes of memory a load or store moves for each lane."""
        bits = {"U8": 8, "S8": 8, "U16": 16, "S16": 16, "64": 64, "96": 96, "128": 128, "256": 256}
        return next((bits[modifier] for modifier in self.modifiers if modifier in bits), 32) // 8

    def __str__(self) -> str:
        """Return the line of a listing."""
        predicate = f"@{self.predicate} " if self.predicate else ""
        return f"/*{self.offset:04x}*/ {predicate}{self.opcode} {', '.join(self.operands)}"


def nvdisasm() -> Path:
    """Return the newest nvdisasm of pip's packages; raise MissingDisassembler."""
    spec = importlib.util.find_spec("nvidia")
    roots = [Path(root) for root in (spec.submodule_search_locations or ())] if spec else []
    # One folder a major version, nvidia/cu13 and so on.
    found = [path for root in roots for path in root.glob("cu[0-9]*/bin/nvdisasm")]
    if not found:
        raise MissingDisassembler(f"nvdisasm not found; run `pip install {PACKAGE}`")
    return max(found, key=lambda path: int(path.parent.parent.name.removeprefix("cu")))


def disassemble(image: bytes) -> dict[str, tuple[Instruction, ...]]:
    """Return the code of each section with code in a cubin, by the name of its kernel.

    The subroutines that a kernel calls lie behind it in its section. Raises MissingDisassembler, and BuildError with
    what nvdisasm says if it refuses the image.
    """
    program = nvdisasm()
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(image)
        file.flush()
        done = subprocess.run([program, "-json", file.name], capture_output=True, text=True)
    if done.returncode != 0:
        raise BuildError(explain(f"{program} refuses the cubin", done.stderr or done.stdout))
    _, functions = json.loads(done.stdout)
    return {function["function-name"]: _instructions(function) for function in functions}


def _instructions(function: dict[str, object]) -> tuple[Instruction, ...]:
    listed = function["sass-instructions"]
    assert isinstance(listed, list) and function["length"] == INSTRUCTION_BYTES * len(listed)
    return tuple(
        Instruction(
            offset=INSTRUCTION_BYTES * place,
            predicate=line.get("predicate", "").removeprefix("@"),
            opcode=line["opcode"],
            operands=tuple(operand for operand in line.get("operands", "").split(",") if operand),
            branches="control-flow" in line.get("other-attributes", {}),
        )
        for place, line in enumerate(listed)
    )
