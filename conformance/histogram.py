"""How often each scale byte is due, for the suite's own numbers and for Gaussian ones."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table

from conformance.write_generation import BLOCK, LATENT, ROPE, TIES, case_of, mixed, scale_histogram
from fixtures.write_cases import WriteCase
from reference import quantize
from reference.profiles import DEFAULT, Profile
from reference.scalars import E4M3, bf16_from_f32, f32_from_bf16


def gaussian(tokens: int, seed: int = 0) -> WriteCase:
    """Tokens of N(0, 1) numbers."""
    normal = np.random.default_rng(seed).normal(size=(tokens, LATENT)).astype(np.float32)
    return case_of(bf16_from_f32(normal), np.zeros((tokens, ROPE), np.uint16), seed, "N(0, 1)")


def ties_of(case: WriteCase, profile: Profile = DEFAULT) -> dict[float, int]:
    """How many elements, under the scale of their block, lie exactly on each e2m1 tie."""
    blocks = f32_from_bf16(case.kv_c).reshape(len(case.kv_c), LATENT // BLOCK, BLOCK)
    factors = quantize.scale_factors(quantize.amax(blocks, profile.nan), profile.sixth)
    scales = E4M3.decode(quantize.scale_bytes(factors, profile.scale))
    with np.errstate(invalid="ignore"):
        scaled = np.abs(blocks) / scales[..., None]
    return {tie: int((scaled == tie).sum()) for tie in TIES}


def show(tokens: int, console: Console) -> None:
    """Print both histograms, eight scale bytes a row, and the ties."""
    for name, case in (("mixed numbers of the suite", realized(tokens)), ("N(0, 1)", gaussian(tokens))):
        counts = scale_histogram(case, DEFAULT)
        reached = int((counts[0x01:0x7F] > 0).sum())
        table = Table("scale bytes", *(f"+{i}" for i in range(8)), box=None, title=f"{name}: {reached} of 126 reached")
        for first in range(0, 0x80, 8):
            table.add_row(f"0x{first:02X}", *(f"{count:,}" for count in counts[first : first + 8]))
        console.print(table)
        ties = ", ".join(f"{tie}: {count:,}" for tie, count in ties_of(case).items())
        console.print(f"elements on a tie: {ties}\n")


def realized(tokens: int) -> WriteCase:
    """As many tokens of the suite's own numbers."""
    kv_c, k_pe = mixed(tokens, 1)
    return case_of(kv_c, k_pe, 1, "mixed")
