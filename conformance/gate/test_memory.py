"""PAGE-2, GATHER-5 to GATHER-9: strides, far offsets, and every byte that is not the gather's to touch."""

import pytest

from conformance.cases import FAR, STRIDED, Named, cases_of, strided_gather, without_starts
from conformance.generation import Geometry, realize
from conformance.judge import Judge
from fixtures.cases import CONTIGUOUS, Arrangement

NUMBERS_OF_ROWS = (*range(1, 18), *(power + more for power in (32, 64, 128, 256, 512) for more in (-1, 0, 1)))
"""All small ones, and those around what a block of threads or a tile may hold."""


@pytest.mark.clause("GATHER-8", "PAGE-2")
@pytest.mark.parametrize("how", STRIDED.values(), ids=STRIDED)
def test_strided_arrays_give_what_contiguous_ones_give(judge: Judge, how: Arrangement) -> None:
    judge.same(judge.rows(strided_gather(how)), judge.rows(strided_gather(CONTIGUOUS)), "strided, and contiguous")


@pytest.mark.clause("GATHER-8", "PAGE-2")
@pytest.mark.parametrize("how", STRIDED.values(), ids=STRIDED)
def test_strided_arrays_give_what_contiguous_ones_give_without_starts(judge: Judge, how: Arrangement) -> None:
    strided, plain = without_starts([strided_gather(how), strided_gather(CONTIGUOUS)])
    judge.same(judge.rows(strided), judge.rows(plain), "strided, and contiguous")


@pytest.mark.clause("GATHER-5", "GATHER-6", "GATHER-7")
@pytest.mark.parametrize("rows", NUMBERS_OF_ROWS)
def test_every_row_is_written_and_nothing_else_without_starts(judge: Judge, rows: int) -> None:
    judge(realize(Geometry(4, (rows,), arrangement=Arrangement(dst_row_slack=8)), seed=rows))


@pytest.mark.clause("GATHER-5", "GATHER-6", "GATHER-7")
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 31, 32, 33, 127, 129])
def test_every_row_is_written_and_nothing_else(judge: Judge, rows: int) -> None:
    judge(realize(Geometry(4, (rows,), (3,), arrangement=Arrangement(dst_row_slack=8)), seed=rows))


@pytest.mark.clause("PAGE-3")
def test_table_entries_that_no_row_needs_may_hold_anything(judge: Judge) -> None:
    # What the case leaves unneeded, the judge fills with block numbers out of range.
    judge(realize(Geometry(4, (5, 0, 0, 2), (8, 3, 0, 0), extra_columns=4), seed=2))


@pytest.mark.clause("PAGE-3")
def test_table_entries_that_no_row_needs_may_hold_anything_without_starts(judge: Judge) -> None:
    judge(realize(Geometry(4, (5, 0, 0, 2), extra_columns=4), seed=2))


@pytest.mark.clause("PAGE-4")
def test_records_that_no_row_needs_may_hold_anything(judge: Judge) -> None:
    # What the case leaves unneeded, the judge fills with NaN under one pattern and with numbers under the other.
    judge(realize(Geometry(16, (3, 2), extra_blocks=5), seed=3))


@pytest.mark.roomy
@pytest.mark.long
@pytest.mark.unsanitized
@pytest.mark.clause("GATHER-9", "PAGE-2")
@pytest.mark.parametrize("named", FAR, ids=lambda named: named.__name__)
def test_offsets_of_two_gib_and_more_are_reached(judge: Judge, named: Named) -> None:
    for case in cases_of(named):
        judge(case)


@pytest.mark.clause("GATHER-8")
def test_a_table_of_one_row_for_all_requests_is_read(judge: Judge) -> None:
    alike = Arrangement(table_is_broadcast=True)
    judge(realize(Geometry(4, (5, 0, 9), extra_columns=1, table="shared", arrangement=alike), seed=4))
