"""Generate random scenarios: requests that share parts of their prompts, with few blocks and small budgets."""

from __future__ import annotations

from hypothesis import strategies as st

from conformance.scenarios.catalogue import request, text
from conformance.scenarios.scenario import Scenario


@st.composite
def workloads(draw: st.DrawFn) -> Scenario:
    """Draw up to six requests, whose prompts often begin alike, and settings under which they collide."""
    size = draw(st.sampled_from((1, 4, 5, 16)))
    part = st.tuples(st.integers(0, 1), st.integers(0, 2 * size + 3))
    prompts = draw(st.lists(st.lists(part, max_size=3), min_size=1, max_size=6))
    requests = tuple(
        request(
            f"request {number}",
            [*(text(length, 900 + seed) for seed, length in parts), text(draw(st.integers(1, 3)), 910 + number % 3)],
            draw(st.integers(1, 7)),
            draw(st.integers(0, 6)),
        )
        for number, parts in enumerate(prompts)
    )
    most = max(-(-len(one.tokens) // size) for one in requests)
    align = draw(st.booleans())
    return Scenario(
        "a random workload",
        requests,
        block_size=size,
        num_blocks=most + draw(st.integers(0, 8)),
        budgets=tuple(draw(st.lists(st.integers(1, 30), min_size=1, max_size=4))),
        max_num_seqs=draw(st.integers(1, 4)),
        prefix_caching=draw(st.booleans()),
        workspace_rows=(size if align else 1) + draw(st.integers(0, 40)),
        align_chunk_to_block=align,
        decode_threshold=draw(st.integers(0, 1)),
        dummy_every=draw(st.integers(0, 3)),
        look_every=draw(st.sampled_from((0, 2))),
        pad_to=draw(st.sampled_from((1, 8))),
        block_slack=draw(st.sampled_from((0, 16))),
        seed=draw(st.integers(0, 9)),
    )
