"""GATHER-15: the schemas under which gathers are registered."""

import pytest

from conformance.judge import Judge
from conformance.schemas import judge_schema
from conformance.targets.base import GATHERS


@pytest.mark.clause("GATHER-15")
@pytest.mark.parametrize("kv_cache", GATHERS)
def test_seq_starts_is_the_last_argument_and_may_be_left_out(judge: Judge, kv_cache: str) -> None:
    judge_schema(judge, GATHERS[kv_cache][-1])
