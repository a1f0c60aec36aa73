"""ATTEND: what batches are compared with, and how wide the bounds on it are."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from conformance.context_cases import ACCEPTANCE, NAMED, SHARDED, of
from conformance.context_generation import FINITE_BYTES, alone, realize
from conformance.one_softmax import Arithmetic, attend_whole, error_bounds, rows_of
from fixtures.context_cases import ContextCase, Records
from fixtures.placement import POISONS
from reference import context
from reference.profiles import DEFAULT
from reference.scalars import f32_from_bf16
from reference.shards import Sharding

SMALL = ContextCase((40, 0, 3), (3, 2, 4), 16, 64, seed=3)
BATCHES = [ACCEPTANCE, *NAMED.values()]


@pytest.mark.parametrize("case", BATCHES, ids=lambda case: str(case.seed))
def test_one_softmax_is_torch_s_attention(case: ContextCase) -> None:
    batch = realize(case, DEFAULT)
    whole, near = attend_whole(batch), 1e-13 * case.largest_score / 16
    for request, (first, end) in zip(whole.requests, pairwise(case.query_start_loc), strict=True):
        q, k, v = (torch.from_numpy(part).transpose(0, 1) for part in (request.q, request.k, request.v))
        found = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=float(whole.softmax_scale))
        lse = torch.logsumexp(whole.softmax_scale * q @ k.transpose(1, 2), dim=2)
        assert np.allclose(whole.output[first:end], found.transpose(0, 1).nan_to_num(), rtol=0, atol=near)
        assert np.allclose(whole.lse[:, first:end], lse, rtol=0, atol=near)


def test_a_context_of_one_token_has_its_value_and_its_score() -> None:
    batch = realize(NAMED["one token"], DEFAULT)
    whole, row = attend_whole(batch), f32_from_bf16(rows_of(batch, 0)[0])
    made = batch.kv_b_proj @ row[:512]
    assert np.array_equal(whole.output[0], made[:, 16:])
    score = batch.q[0, :, :16] * made[:, :16], batch.q[0, :, 16:] * row[512:]
    assert np.allclose(whole.lse[:, 0], whole.softmax_scale * np.concatenate(score, axis=1).sum(axis=1))


@pytest.mark.parametrize("kv_cache_dtype", context.LAYOUTS)
def test_the_cache_holds_the_same_context_however_it_is_laid_out(kv_cache_dtype: str) -> None:
    case = of(replace(ACCEPTANCE, records="bytes", seed=7), kv_cache_dtype)
    one = realize(case, DEFAULT)
    others = [
        realize(replace(case, **change), DEFAULT, POISONS[1])
        for change in ({"block_size": 1}, {"sharding": Sharding(3, 2)}, {"sharding": Sharding(2), "block_size": 16})
    ]
    for request in range(4):
        assert all(np.array_equal(rows_of(one, request), rows_of(other, request)) for other in others)
    assert len(np.unique(rows_of(one, 0), axis=0)) == 1000  # no token for another


@pytest.mark.parametrize("records", ["quantized", "bytes"])
@pytest.mark.parametrize("kv_cache_dtype", FINITE_BYTES)
def test_keys_and_values_are_exact_before_they_are_rounded(kv_cache_dtype: str, records: Records) -> None:
    batch = realize(replace(ACCEPTANCE, kv_cache_dtype=kv_cache_dtype, records=records), DEFAULT)
    request = attend_whole(batch).requests[0]
    numbers = f32_from_bf16(request.rows).astype(np.float64)
    assert np.isfinite(numbers).all()
    for order in (np.arange(512), np.arange(512)[::-1]):
        terms = numbers[:100, None, order] * batch.kv_b_proj[0][None, :, order]
        made = np.add.accumulate(terms, axis=2)[..., -1]  # one by one
        assert np.array_equal(made, np.concatenate([request.k[:100, 0, :16], request.v[:100, 0]], axis=1))


@pytest.mark.parametrize("case", BATCHES, ids=lambda case: str(case.seed))
def test_every_latent_element_is_some_key_s_or_value_s(case: ContextCase) -> None:
    assert (realize(case, DEFAULT).kv_b_proj != 0).any(axis=(0, 1)).all()


@pytest.mark.parametrize("case", [case for case in BATCHES if case.context_lens != (1,)], ids=lambda c: str(c.seed))
def test_a_bound_holds_and_is_at_most_3000_times_what_is_observed(case: ContextCase) -> None:
    batch = realize(case, DEFAULT)
    whole, metadata, (cache,) = attend_whole(batch), case.chunked_context, batch.caches
    gather = context.gather_from(cache.kv_cache, case.kv_cache_dtype, batch.scale, cache.block_table)
    found = context.compute_prefill_context(batch.q, gather, metadata, batch.kv_b_proj, whole.softmax_scale)
    with_context, bounds = np.isfinite(whole.lse), error_bounds(whole, metadata, Arithmetic(1))
    for expected, got, bound in zip((whole.output, whole.lse), found, bounds, strict=True):
        held = with_context if expected is whole.lse else with_context.T
        error = np.abs(got[held] - expected[held])
        assert (error <= bound[held]).all()
        assert bound[held].max() <= 3000 * error.max()  # roundings cancel, bounds add them


@pytest.mark.parametrize("kv_cache_dtype", context.LAYOUTS)
def test_each_row_that_is_another_token_s_is_beyond_the_bound(kv_cache_dtype: str) -> None:
    case = of(SMALL, kv_cache_dtype)
    batch = realize(case, DEFAULT)
    whole = attend_whole(batch)
    output, _ = error_bounds(whole, case.chunked_context, Arithmetic(16))
    request = whole.requests[0]
    for row in range(40):
        k, v = (part.copy() for part in (request.k, request.v))
        k[row], v[row] = k[row - 1], v[row - 1]
        wrong = context.softmax(request.q, k, v, whole.softmax_scale).output
        assert (np.abs(wrong - whole.output[:3]) > 30 * output[:3]).any(), row


def test_a_request_alone_is_that_request() -> None:
    batch = realize(SMALL, DEFAULT)
    whole = attend_whole(batch)
    one = attend_whole(alone(batch, 2), whole.softmax_scale)
    assert np.array_equal(one.output, whole.output[5:]) and np.array_equal(one.lse, whole.lse[:, 5:])


@pytest.mark.parametrize("case", SHARDED.values(), ids=SHARDED)
def test_the_sharded_batches_are_cut(case: ContextCase) -> None:
    assert len(case.chunked_context.chunks) > 1 or max(case.context_lens) < 4
