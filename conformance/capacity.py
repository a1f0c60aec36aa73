"""How many tokens fit into so many bytes of cache, record by record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from reference.writing import FORMATS

ORDER = ("nvfp4_ds_mla", "fp8_ds_mla", "fp8", "auto")
"""Every kv_cache_dtype of FORMATS; the others are compared with the first one."""


@dataclass(frozen=True)
class Capacity:
    """One kv_cache_dtype: bytes of a record, how many blocks fit and how many tokens they hold.

    `ratio` is how many times as many bytes as the first one's a token takes, in every layer.
    """

    kv_cache_dtype: str
    record_bytes: int
    blocks: int
    tokens: int
    ratio: float


def record_bytes(kv_cache_dtype: str) -> int:
    """Bytes of one token's record in one layer: 352, 656, 576, or 1,152 for "auto"."""
    form = FORMATS[kv_cache_dtype]
    return form.width * np.dtype(form.dtype).itemsize


def capacities(nbytes: int, layers: int, block_size: int) -> list[Capacity]:
    """What `nbytes` bytes hold of a model of `layers` layers: whole blocks of `block_size` tokens in every layer.

    Nothing but records counts. Raises ValueError, naming the argument, for a number below 1 (of bytes: below 0).
    """
    for name, number, least in (("nbytes", nbytes, 0), ("layers", layers, 1), ("block_size", block_size, 1)):
        if number < least:
            raise ValueError(f"{name} is {number}; allowed is at least {least}")
    found = []
    for kv_cache_dtype in ORDER:
        size = record_bytes(kv_cache_dtype)
        blocks = nbytes // (size * layers * block_size)
        found.append(Capacity(kv_cache_dtype, size, blocks, blocks * block_size, size / record_bytes(ORDER[0])))
    return found


def show_capacities(gib: float, layers: int, block_size: int, console: Console) -> None:
    """Print capacities of `gib` times 2^30 bytes."""
    table = Table(title=f"{gib:g} GiB, {layers} layers, blocks of {block_size} tokens", box=None, title_justify="left")
    columns: list[tuple[str, Any]] = [("kv_cache_dtype", "left"), ("bytes a token and layer", "right")]
    columns += [(f"x {ORDER[0]}", "right"), ("blocks", "right"), ("tokens", "right")]
    for name, justify in columns:
        table.add_column(name, justify=justify)
    for row in capacities(int(gib * 2**30), layers, block_size):
        name = "auto (bf16)" if row.kv_cache_dtype == "auto" else row.kv_cache_dtype
        table.add_row(name, f"{row.record_bytes:,}", f"{row.ratio:.2f}", f"{row.blocks:,}", f"{row.tokens:,}")
    console.print(table)
