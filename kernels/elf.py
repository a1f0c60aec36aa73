"""What a cubin's ELF image says of its kernels beside their code: stack, registers, where the functions in it begin."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from kernels.cache import BuildError

# Attributes of .nv.info whose value is a symbol's index and a number; the names are those nvdisasm prints.
_FRAME_SIZE, _MIN_STACK_SIZE, _REGCOUNT = 0x11, 0x12, 0x2F
# How an attribute's value is kept: none, one byte or two beside the attribute, or its size and then that many bytes.
_SIZED = 4


@dataclass(frozen=True)
class Image:
    """A cubin as NVRTC writes it: ELF, 64 bits, little endian. Every property raises BuildError if it is not."""

    image: bytes

    @cached_property
    def sections(self) -> dict[str, bytes]:
        """The sections by name; those that take no place in the file are empty."""
        if self.image[:6] != b"\x7fELF\x02\x01":
            raise BuildError("this is no cubin: it does not begin like a little-endian ELF image of 64 bits")
        (table,) = struct.unpack_from("<Q", self.image, 40)
        size, count, names = struct.unpack_from("<HHH", self.image, 58)
        headers = [struct.unpack_from("<IIQQQQ", self.image, table + size * i) for i in range(count)]
        contents = [b"" if kind == 8 else self.image[at : at + length] for _, kind, _, _, at, length in headers]
        return {_text(contents[names], header[0]): content for header, content in zip(headers, contents, strict=True)}

    @cached_property
    def symbols(self) -> tuple[tuple[str, int], ...]:
        """Name and value of every symbol in order; the value of a function is its offset in its section in bytes."""
        entries = struct.iter_unpack("<IBBHQQ", self.sections[".symtab"])
        return tuple((_text(self.sections[".strtab"], name), value) for name, _, _, _, value, _ in entries)

    @property
    def stack_bytes(self) -> dict[str, int]:
        """Bytes of local memory that each function takes for its frame, or needs below it, whichever is more."""
        frames: dict[str, int] = {}
        for attribute, name, number in self._numbers():
            if attribute in (_FRAME_SIZE, _MIN_STACK_SIZE):
                frames[name] = max(number, frames.get(name, 0))
        return frames

    @property
    def registers(self) -> dict[str, int]:
        """How many 32-bit registers a thread of each kernel takes."""
        return {name: number for attribute, name, number in self._numbers() if attribute == _REGCOUNT}

    def _numbers(self) -> Iterator[tuple[int, str, int]]:
        info, at = self.sections.get(".nv.info", b""), 0
        while at < len(info):
            kind, attribute, size = struct.unpack_from("<BBH", info, at)
            at += 4
            if kind == _SIZED:
                if attribute in (_FRAME_SIZE, _MIN_STACK_SIZE, _REGCOUNT):
                    symbol, number = struct.unpack_from("<II", info, at)
                    yield attribute, self.symbols[symbol][0], number
                at += size


def _text(strings: bytes, at: int) -> str:
    return strings[at : strings.index(b"\0", at)].decode()
