"""Define the layouts of cache records as data, in this one place (RECORD-1 to RECORD-4, WRITE)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RecordLayout:
    """Describe where the parts of one token's record lie.

    Offsets and sizes are in bytes, ranks and dimensions in elements. The CUDA sources get these numbers as macros. A
    static_assert there checks that the parts abut and fill the record.
    """

    name: str
    kv_lora_rank: int
    qk_rope_head_dim: int
    scale_block: int
    latent_offset: int
    rope_offset: int
    scale_offset: int
    record_bytes: int

    @property
    def row_elements(self) -> int:
        """The number of elements in a gathered row: the latent, then the RoPE key (GATHER-5)."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    def defines(self) -> tuple[str, ...]:
        """Return the -D options that give a compiler this layout. kernels/cuda/nvfp4_record.cuh reads them."""
        numbers = {
            "RECORD_BYTES": self.record_bytes,
            "LATENT_OFFSET": self.latent_offset,
            "ROPE_OFFSET": self.rope_offset,
            "SCALE_OFFSET": self.scale_offset,
            "KV_LORA_RANK": self.kv_lora_rank,
            "QK_ROPE_HEAD_DIM": self.qk_rope_head_dim,
            "SCALE_BLOCK": self.scale_block,
            "ROW_ELEMENTS": self.row_elements,
        }
        return tuple(f"-DNVFP4_{name}={number}" for name, number in numbers.items())


NVFP4_DS_MLA = RecordLayout(
    name="nvfp4_ds_mla",
    kv_lora_rank=512,
    qk_rope_head_dim=64,
    scale_block=16,
    latent_offset=0,
    rope_offset=256,
    scale_offset=320,
    record_bytes=352,
)


@dataclass(frozen=True)
class CacheFormat:
    """Describe one record of a cache for a writer: `elements` elements of one of the `dtypes`."""

    dtypes: tuple[str, ...]
    elements: int


BF16 = ("bfloat16", "uint16")
"""The dtypes of bf16: its name, or uint16 encodings for a library without that name."""

CACHE_FORMATS = {
    "nvfp4_ds_mla": CacheFormat(("uint8",), NVFP4_DS_MLA.record_bytes),
    "fp8_ds_mla": CacheFormat(("uint8",), 656),
    "auto": CacheFormat(BF16, NVFP4_DS_MLA.row_elements),
    "fp8": CacheFormat(("uint8",), NVFP4_DS_MLA.row_elements),
}
"""The cache formats by kv_cache_dtype (WRITE-15, WRITE-16, WRITE-19, WRITE-20)."""
