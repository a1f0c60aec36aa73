"""WRITE-21: what a writer writes, read by every reader there is, against values that no record was packed for."""

from __future__ import annotations

import numpy as np

from conformance.judge import Judge
from conformance.targets.base import GATHER, Target
from conformance.targets.registry import BUILT_IN, find
from conformance.write_generation import BLOCK
from conformance.writes import image_of
from fixtures.cases import GatherCase
from fixtures.write_cases import WriteCase
from reference import quantize
from reference.profiles import Profile
from reference.scalars import E2M1, E4M3, Bf16Bits, bf16_from_f32, f32_from_bf16


def readers(judged: Target) -> list[Target]:
    """The target itself, if it reads, and the built-in targets that this machine can run."""
    others = [find(name) for name in BUILT_IN if name != judged.name]
    able = [target for target in (judged, *others) if GATHER in target.capabilities and not target.unavailable()]
    return [target for target in able if not target.hindrance(GATHER)]


def must_be_read_as_quantized(judge: Judge, case: WriteCase) -> None:
    """Raise Differs unless every reader gathers, from what the target writes, the values that its profile gives."""
    image = image_of(judge, case)
    tokens = np.flatnonzero(case.slot_mapping >= 0)
    expected = quantized_rows(case.kv_c[tokens], case.k_pe[tokens], judge.target.profile)
    blocks = np.arange(case.num_blocks, dtype=np.int32)[None]
    rows = case.num_blocks * case.block_size
    gathered = GatherCase(image, blocks, np.zeros(1, np.int32), rows, origin=f"written by {judge.target.name}")
    for reader in readers(judge.target):
        read = Judge(reader, judge.clauses).rows(gathered)[case.slot_mapping[tokens]]
        judge.same(
            read, expected, f"what {reader.name} reads of what {judge.target.name} wrote, and the quantized values"
        )


def quantized_rows(kv_c: Bf16Bits, k_pe: Bf16Bits, profile: Profile) -> Bf16Bits:
    """uint16 bf16 encodings [N, 512] and [N, 64] -> [N, 576]: each number as its code and scale stand for it."""
    blocks = f32_from_bf16(kv_c).reshape(len(kv_c), kv_c.shape[1] // BLOCK, BLOCK)
    factors = quantize.scale_factors(quantize.amax(blocks, profile.nan), profile.sixth)
    scales = E4M3.decode(quantize.scale_bytes(factors, profile.scale))[..., None]
    latent = E2M1.decode(quantize.latent_codes(blocks, scales, profile.normalisation)) * scales
    rope = E4M3.decode(E4M3.encode(f32_from_bf16(k_pe)))
    return bf16_from_f32(np.concatenate([latent.reshape(kv_c.shape), rope], axis=1))
