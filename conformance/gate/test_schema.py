"""GATHER-15: the schemas under which gathers are registered."""

import pytest

from conformance.judge import Judge
from conformance.schemas import OF_THE_CALL, judge_schema


@pytest.mark.clause("GATHER-15")
@pytest.mark.parametrize("operator", OF_THE_CALL)
def test_seq_starts_is_the_last_argument_and_may_be_left_out(judge: Judge, operator: str) -> None:
    judge_schema(judge, operator)
