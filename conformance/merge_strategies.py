"""hypothesis strategies: merges of drawn shapes, arrangements and states, whose numbers come from a drawn seed."""

from __future__ import annotations

from hypothesis import strategies as st

from conformance.merge_cases import INPUTS, LSES
from conformance.merge_generation import ALL_STATES, ENDS, EVERY, FINITE, ORDINARY, WEIGHTLESS, mixed
from fixtures.merge_cases import NARROW, WIDE, MergeCase, Slack


def slacks(unit: int) -> st.SearchStrategy[Slack]:
    """Strides of an array, slack in multiples of `unit` elements."""
    some = st.integers(0, 3).map(lambda n: n * unit)
    return st.builds(Slack, outer=some, inner=some, turned=st.booleans(), shift=st.sampled_from((0, 0, 4, 16, 240)))


def arrangements() -> st.SearchStrategy[dict[str, Slack]]:
    """Some arrays contiguous, some not."""
    wide = st.dictionaries(st.sampled_from(WIDE), slacks(8) | slacks(1))
    narrow = st.dictionaries(st.sampled_from(NARROW), slacks(1))
    return st.just({}) | st.builds(dict.__or__, wide, narrow)


@st.composite
def merge_cases(draw: st.DrawFn, kind: str) -> MergeCase:
    """Legal merges."""
    return mixed(
        draw(st.integers(1, 9)),
        draw(st.integers(1, 6)),
        draw(st.sampled_from((8, 16, 64, 128)) | st.integers(1, 72)),
        kind,
        draw(st.integers(0, 1 << 32)),
        draw(st.sampled_from((EVERY, ORDINARY, ALL_STATES, WEIGHTLESS, FINITE, ENDS))),
        draw(st.booleans()),
        draw(arrangements()),
        output_in=draw(st.sampled_from(("output", *INPUTS))),
        lse_in=draw(st.sampled_from(("output_lse", *LSES, None))),
    )
