"""Small gathers written out by hand, for tests of the operators themselves."""

from typing import Any

import numpy as np

UNTOUCHED = 0xDEAD


def record(latent: int, scale: int, rope: int) -> np.ndarray:
    """One record in which all latent bytes, all scale bytes and all RoPE bytes are alike."""
    return np.array([latent] * 256 + [rope] * 64 + [scale] * 32, np.uint8)


def row(even: float, odd: float, rope: float) -> np.ndarray:
    """The bf16 encodings of a row that alternates between two latent values; all numbers fit a bf16."""
    return (np.array([even, odd] * 256 + [rope] * 64, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def well_formed() -> dict[str, Any]:
    """Two requests of 3 and 2 tokens in pages of 4."""
    return {
        "src_cache": np.zeros((3, 4, 352), np.uint8),
        "dst": np.full((5, 576), UNTOUCHED, np.uint16),
        "block_table": np.array([[2, 0], [1, 2]], np.int32),
        "workspace_starts": np.array([0, 3], np.int32),
        "batch_size": 2,
        "seq_starts": np.array([0, 1], np.int32),
    }
