"""PAGE and GATHER: which record each row comes from."""

from dataclasses import replace
from itertools import filterfalse

import numpy as np
import pytest

from conformance import small_scope
from conformance.cases import (
    ABOUT_STARTS,
    NAMED,
    UNALIGNED,
    VALUES,
    Named,
    cases_of,
    rows_of,
    without_starts,
)
from conformance.extremes import EXTREMES, FAR_TOKENS, OF_ROWS
from conformance.generation import Geometry, Random, realize
from conformance.judge import Judge
from conformance.targets.base import GATHER, GATHER_STARTS
from fixtures.cases import Arrangement, GatherCase, packed_starts

BLOCK_SIZES = (*range(1, 14), *(size + more for size in (16, 32, 64, 128) for more in (-1, 0, 1)))
BLOCK_SIZES += (20, 24, 28, 40, 48, 80, 96, 100, 160, 192, 256, 512, 1000)
SMALL_SCOPE = [
    pytest.param(part, id=str(part), marks=[pytest.mark.long] if part.requests == 3 else [])
    for part in small_scope.PARTS
]


@pytest.mark.unsanitized
@pytest.mark.clause("GATHER-1", "GATHER-2", "GATHER-5", "PAGE-1")
@pytest.mark.parametrize("part", SMALL_SCOPE)
@pytest.mark.parametrize("block_size", [1, 2, 3])
def test_every_geometry_of_a_small_scope(judge: Judge, block_size: int, part: small_scope.Part) -> None:
    judge.need(GATHER_STARTS)
    for batch in small_scope.batches(block_size, part):
        small_scope.judge_batch(judge, batch)


@pytest.mark.unsanitized
@pytest.mark.clause("GATHER-1", "GATHER-3", "GATHER-5", "PAGE-1")
@pytest.mark.parametrize("requests", range(1, small_scope.MOST_REQUESTS + 1))
@pytest.mark.parametrize("block_size", range(1, 9))
def test_every_geometry_of_a_small_scope_without_starts(judge: Judge, block_size: int, requests: int) -> None:
    judge.need(GATHER)
    small_scope.judge_batch(judge, small_scope.without_starts(block_size, requests))


@pytest.mark.clause("GATHER-10")
@pytest.mark.parametrize("with_starts", [True, False], ids=["starts", "no starts"])
@pytest.mark.parametrize("block_size", [1, 2, 3])
def test_no_rows_of_a_small_scope_are_no_error(judge: Judge, block_size: int, with_starts: bool) -> None:
    judge.need(GATHER_STARTS if with_starts else GATHER)
    for batch in small_scope.without_rows(block_size, with_starts):
        small_scope.judge_batch(judge, batch)


@pytest.mark.clause("GATHER-1", "GATHER-2", "GATHER-8", "PAGE-1", "PAGE-2", "PAGE-3", "PAGE-4")
@pytest.mark.parametrize("named", NAMED, ids=lambda named: named.__name__)
def test_inputs_that_broke_real_kernels(judge: Judge, named: Named) -> None:
    for case in cases_of(named):
        judge(case)


@pytest.mark.clause("GATHER-1", "GATHER-3", "GATHER-8", "PAGE-1", "PAGE-2", "PAGE-3", "PAGE-4")
@pytest.mark.parametrize("named", [*filterfalse(ABOUT_STARTS.__contains__, NAMED)], ids=lambda named: named.__name__)
def test_inputs_that_broke_real_kernels_without_starts(judge: Judge, named: Named) -> None:
    for case in without_starts(cases_of(named)):
        judge(case)


@pytest.mark.clause("GATHER-2")
@pytest.mark.parametrize("values", VALUES)
def test_values_are_read_behind_unaligned_starts(judge: Judge, values: str) -> None:
    judge(rows_of(VALUES[values](), f"{values}, unaligned starts", UNALIGNED))


@pytest.mark.long
@pytest.mark.unsanitized
@pytest.mark.clause("GATHER-1", "GATHER-2", "GATHER-5", "GATHER-8", "PAGE-1", "PAGE-2")
@pytest.mark.parametrize("named", [*filterfalse(OF_ROWS.__contains__, EXTREMES)], ids=lambda named: named.__name__)
def test_magnitudes_that_outgrow_a_type_or_a_tile(judge: Judge, named: Named) -> None:
    for case in cases_of(named):
        if case.seq_starts is not None:
            judge(case)


@pytest.mark.long
@pytest.mark.unsanitized
@pytest.mark.clause("GATHER-1", "GATHER-3", "GATHER-5", "GATHER-8", "PAGE-1", "PAGE-2")
@pytest.mark.parametrize("named", [*filterfalse(FAR_TOKENS.__contains__, EXTREMES)], ids=lambda named: named.__name__)
def test_magnitudes_that_outgrow_a_type_or_a_tile_without_starts(judge: Judge, named: Named) -> None:
    cases = cases_of(named)
    for case in [case for case in cases if case.seq_starts is None] or without_starts(cases):
        judge(case)


@pytest.mark.clause("GATHER-3")
def test_no_seq_starts_are_zeros(judge: Judge) -> None:
    case = realize(Geometry(4, (6, 0, 9), None), seed=1)
    of_zeros = judge.rows(replace(case, seq_starts=np.zeros(3, np.int32)))
    judge(replace(case, seq_starts=np.array([2, 0, 3], np.int32)))  # of which the next call knows nothing
    judge.same(of_zeros, judge.rows(case), "seq_starts of zeros, and none")


@pytest.mark.clause("GATHER-2")
@pytest.mark.parametrize("start", range(10))
def test_a_gather_with_a_start_is_a_part_of_the_whole(judge: Judge, start: int) -> None:
    whole = realize(Geometry(4, (14,), None), seed=2)
    part = replace(whole, num_rows=14 - start, seq_starts=np.array([start], np.int32))
    judge.same(judge.rows(part), judge.rows(whole)[start:], f"rows from {start} on, and the whole")


@pytest.mark.clause("GATHER-13")
@pytest.mark.parametrize("cut", range(1, 12))
def test_two_parts_make_the_whole_at_every_cut(judge: Judge, cut: int) -> None:
    whole = realize(Geometry(4, (12,), (3,)), seed=3)
    first = replace(whole, num_rows=cut)
    second = replace(whole, num_rows=12 - cut, seq_starts=np.array([3 + cut], np.int32))
    parts = np.concatenate([judge.rows(first), judge.rows(second)])
    judge.same(parts, judge.rows(whole), f"[3, {3 + cut}) and [{3 + cut}, 15), and [3, 15)")


@pytest.mark.clause("PAGE-1", "PAGE-2")
@pytest.mark.parametrize("block_size", BLOCK_SIZES)
def test_every_slot_of_blocks_of_any_size_is_read(judge: Judge, block_size: int) -> None:
    lengths = (2 * block_size + 1, 0, block_size, 1, block_size + 1)
    judge(realize(Geometry(block_size, lengths, extra_blocks=1), seed=block_size))


@pytest.mark.clause("GATHER-13")
@pytest.mark.parametrize("cut", range(1, 12))
def test_the_first_rows_alone_are_those_of_the_whole_at_every_cut(judge: Judge, cut: int) -> None:
    whole = realize(Geometry(4, (12,)), seed=3)
    judge.same(judge.rows(replace(whole, num_rows=cut)), judge.rows(whole)[:cut], f"[0, {cut}), and [0, 12)")


@pytest.mark.clause("GATHER-13")
@pytest.mark.parametrize("request_number", range(10))
def test_a_request_alone_has_the_rows_that_it_has_among_others(judge: Judge, request_number: int) -> None:
    lengths = (3, 8, 1, 17, 4, 2, 33, 5, 9, 16)
    many, first = realize(Geometry(4, lengths, extra_blocks=2), seed=7), sum(lengths[:request_number])
    alone = replace(
        many,
        block_table=many.block_table[[request_number]],
        workspace_starts=np.zeros(1, np.int32),
        num_rows=lengths[request_number],
    )
    among = judge.rows(many)[first : first + lengths[request_number]]
    judge.same(judge.rows(alone), among, "a request alone, and among others")


@pytest.mark.clause("PAGE-5")
def test_renamed_blocks_change_nothing(judge: Judge) -> None:
    case = realize(Geometry(4, (9, 6), extra_blocks=3), seed=4)
    new_name = Random(4).permutation(len(case.records))
    records = np.empty_like(case.records)
    records[new_name] = case.records
    renamed = replace(case, records=records, block_table=new_name[case.block_table])
    judge.same(judge.rows(renamed), judge.rows(case), "renamed blocks")


@pytest.mark.clause("PAGE-5")
def test_requests_that_share_blocks_read_the_same(judge: Judge) -> None:
    rows = judge.rows(realize(Geometry(4, (7, 7), table="shared"), seed=5))
    judge.same(rows[:7], rows[7:], "two requests with one row of blocks")


@pytest.mark.clause("GATHER-4")
@pytest.mark.parametrize("spare", [0, 1, 2])
@pytest.mark.parametrize("requests", [1, 2, 4])
def test_entries_after_the_first_r_are_nobodys(judge: Judge, requests: int, spare: int) -> None:
    judge(first_requests_of_four(requests, spare))


@pytest.mark.clause("GATHER-4")
@pytest.mark.parametrize("spare", range(5))
@pytest.mark.parametrize("requests", range(1, 5))
def test_entries_after_the_first_r_are_nobodys_without_starts(judge: Judge, requests: int, spare: int) -> None:
    judge(replace(first_requests_of_four(requests, spare), seq_starts=None))


def first_requests_of_four(requests: int, spare: int) -> GatherCase:
    """Return a gather of the first of four requests, with that many spare entries in each array."""
    whole = realize(Geometry(4, (3, 5, 2, 4), (1, 6, 0, 2)), seed=6)
    lengths = (3, 5, 2, 4)[:requests]
    assert whole.seq_starts is not None
    return replace(
        whole,
        block_table=whole.block_table[:requests].copy(),
        workspace_starts=packed_starts(lengths),
        seq_starts=whole.seq_starts[:requests].copy(),
        num_rows=sum(lengths),
        arrangement=Arrangement(spare_requests=spare),
    )
