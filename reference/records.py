"""RECORD: where a record keeps what, as data (SPEC.md RECORD-1 to RECORD-5, WRITE-16)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from reference.scalars import BF16, BINARY32, E2M1, E4M3, MiniFloat, WideFloat

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class Field:
    """A run of `count` numbers of one format from byte `offset` of a record on.

    Element e is stored at position `order[e]` (at e, where `order` is empty). A byte holds `per_byte` positions, the
    lower ones in its lower bits; a number of several bytes is little endian.
    """

    name: str
    offset: int
    count: int
    scalar: MiniFloat | WideFloat
    per_byte: int = 1
    order: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        """How many bytes of the record the field takes."""
        return self.count * self.scalar.nbytes // self.per_byte

    @property
    def end(self) -> int:
        """The byte after the field's last one."""
        return self.offset + self.nbytes

    def position(self, element: int) -> int:
        """The position at which an element is stored."""
        return self.order[element] if self.order else element

    def byte_of(self, element: int) -> int:
        """The byte of the record that holds an element, or the first byte of it."""
        return self.offset + self.position(element) * self.scalar.nbytes // self.per_byte

    def shift_of(self, element: int) -> int:
        """The lowest bit, within its byte, of an element."""
        return self.position(element) % self.per_byte * (8 // self.per_byte)

    def in_order(self, stored: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """[..., count] numbers by position -> the same numbers by element."""
        return stored[..., list(self.order)] if self.order else stored


@dataclass(frozen=True)
class RecordLayout:
    """A packed record of one token: latent, RoPE key, and one scale a block of the latent.

    `producer` says whose record it is: the same dtype name stands for other geometries elsewhere.
    """

    name: str
    producer: str
    latent: Field
    rope: Field
    scales: Field

    @property
    def nbytes(self) -> int:
        """Bytes of one record."""
        return max(field.end for field in (self.latent, self.rope, self.scales))

    @property
    def row(self) -> int:
        """Elements of one gathered row: latent, then RoPE."""
        return self.latent.count + self.rope.count

    @property
    def block(self) -> int:
        """Latent elements that share a scale."""
        return self.latent.count // self.scales.count


def transposed(rows: int, columns: int) -> tuple[int, ...]:
    """Where each element of a row-major [rows, columns] matrix stands in its stored transpose."""
    return tuple(element % columns * rows + element // columns for element in range(rows * columns))


NVFP4_DS_MLA = RecordLayout(
    name="nvfp4_ds_mla",
    producer="vLLM, kv_lora_rank 512, qk_rope_head_dim 64",
    latent=Field("latent", 0, 512, E2M1, per_byte=2),
    rope=Field("RoPE", 256, 64, E4M3),
    scales=Field("scale", 320, 32, E4M3, order=transposed(8, 4)),
)

FP8_DS_MLA = RecordLayout(
    name="fp8_ds_mla",
    producer="vLLM, kv_lora_rank 512, qk_rope_head_dim 64",
    latent=Field("latent", 0, 512, E4M3),
    rope=Field("RoPE", 528, 64, BF16),
    scales=Field("scale", 512, 4, BINARY32),
)
