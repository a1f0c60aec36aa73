"""Describe the records of a cache: field offsets, sizes and orders (RECORD-1 to 5, WRITE-16, TWIN-8, TWIN-9)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from reference.scalars import BF16, BINARY32, E2M1, E4M3, MiniFloat, WideFloat

Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class Field:
    """Describe a run of `count` numbers of one format, which starts at byte `offset` of a record.

    Element e is stored at position `order[e]`, or at position e if `order` is empty. A byte holds `per_byte` positions,
    the lower ones in its lower bits. A number of several bytes is little endian.
    """

    name: str
    offset: int
    count: int
    scalar: MiniFloat | WideFloat
    per_byte: int = 1
    order: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        """The size of the field in bytes."""
        return self.count * self.scalar.nbytes // self.per_byte

    @property
    def end(self) -> int:
        """The offset of the first byte after the field."""
        return self.offset + self.nbytes

    def position(self, element: int) -> int:
        """Return the position at which an element is stored."""
        return self.order[element] if self.order else element

    def byte_of(self, element: int) -> int:
        """Return the offset, in the record, of the first byte that holds an element."""
        return self.offset + self.position(element) * self.scalar.nbytes // self.per_byte

    def shift_of(self, element: int) -> int:
        """Return the lowest bit of an element within its byte."""
        return self.position(element) % self.per_byte * (8 // self.per_byte)

    def in_order(self, stored: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Return numbers [..., count], given by position, ordered by element."""
        return stored[..., list(self.order)] if self.order else stored


NO_FIELD = Field("none", 0, 0, E4M3)
"""The empty field, for a record that lacks one."""


@dataclass(frozen=True)
class RecordLayout:
    """Describe the packed record of one token: latent, RoPE key, and one scale for each block of the latent.

    In a generic record all n numbers are latent: `rope` and `scales` are NO_FIELD. `producer` names the project and the
    geometry, because the same dtype name has other geometries elsewhere. `cache_dtype` is the NumPy dtype of a cache.
    """

    name: str
    producer: str
    latent: Field
    rope: Field = NO_FIELD
    scales: Field = NO_FIELD
    cache_dtype: str = "|u1"

    @property
    def nbytes(self) -> int:
        """The size of a record in bytes."""
        return max(field.end for field in (self.latent, self.rope, self.scales))

    @property
    def width(self) -> int:
        """The number of cache elements in a record."""
        return self.nbytes // np.dtype(self.cache_dtype).itemsize

    @property
    def row(self) -> int:
        """The number of elements in a gathered row: latent, then RoPE key."""
        return self.latent.count + self.rope.count

    @property
    def converted(self) -> int:
        """How many elements of a row are computed from codes. The elements after them are copied bit for bit."""
        return sum(field.count for field in (self.latent, self.rope) if isinstance(field.scalar, MiniFloat))

    @property
    def block(self) -> int:
        """The number of latent elements that share a scale."""
        return self.latent.count // self.scales.count


def transposed(rows: int, columns: int) -> tuple[int, ...]:
    """Return the position of each element of a row-major [rows, columns] matrix in its stored transpose."""
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


def generic(kv_cache_dtype: str, n: int) -> RecordLayout:
    """Return the layout of n equal numbers: bf16 for "auto" (TWIN-8), e4m3 with one tensor scale for "fp8" (TWIN-9)."""
    scalars: dict[str, MiniFloat | WideFloat] = {"auto": BF16, "fp8": E4M3}
    scalar = scalars[kv_cache_dtype]
    cache_dtype = scalar.dtype if isinstance(scalar, WideFloat) else "|u1"
    return RecordLayout(
        kv_cache_dtype, "vLLM, generic MLA cache", Field("latent", 0, n, scalar), cache_dtype=cache_dtype
    )


GENERIC = {(kv_cache_dtype, n): generic(kv_cache_dtype, n) for kv_cache_dtype in ("auto", "fp8") for n in (576, 512)}
"""The records that gather_and_maybe_dequant_cache reads, by (kv_cache_dtype, width)."""
