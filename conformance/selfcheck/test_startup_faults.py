"""SERVE-3 to SERVE-10: each faulty startup is seen."""

from collections.abc import Callable

import pytest

from conformance.faults import startups as faulty
from conformance.faults.defect import Defect
from conformance.faults.startups import Starting, having, never, nvfp4, wherever
from conformance.selfcheck.servers import red, startups
from conformance.targets.base import Target
from reference.serving import GATHERS, Serving

SEVERAL = {
    "refused-on-the-first-context": {"SERVE-3", "SERVE-4", "SERVE-5", "SERVE-6", "SERVE-7", "SERVE-8"},
    "two-rules-are-none": {"SERVE-5", "SERVE-6"},
}
"""Where one defect breaks several clauses."""


@pytest.mark.parametrize("defect", faulty.DEFECTS, ids=lambda defect: defect.name)
def test_a_faulty_startup_is_seen_under_its_clause_alone(defect: Defect) -> None:
    assert red(defect.target(), startups()) == SEVERAL.get(defect.name, {defect.clause})


def server(where: Callable[[Serving], bool], otherwise: Callable[[Serving], object] = lambda _: None) -> Starting:
    """A server that does something else than it should with some configurations; as a rule it starts."""
    return Starting(wherever(where, otherwise))


STARTUPS = {
    "refuses everything": (Starting(never), {"SERVE-9", "SERVE-10"}),
    "capability 10.1 refused": (server(having(compute_capability=(10, 1)), never), {"SERVE-10"}),
    "accepts a rank above 512": (server(having(kv_lora_rank=1024)), {"SERVE-4"}),
    "accepts (576, 0)": (server(having(kv_lora_rank=576)), {"SERVE-4"}),
    "accepts a RoPE of 32": (server(having(qk_rope_head_dim=32)), {"SERVE-4"}),
    **{
        f"accepts {name}": (server(having(kv_cache_dtype="nvfp4_ds_mla", attention_backend=name)), {"SERVE-5"})
        for name in ("CUTLASS_MLA", "FLASHINFER_MLA", "FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA_SPARSE")
    },
    **{
        f"accepts capability {found}": (server(having(compute_capability=found)), {"SERVE-6"})
        for found in ((11, 0), (12, 0), (12, 1), (13, 0))
    },
    **{
        f"accepts {ranks} ranks": (
            server(having(kv_cache_dtype="nvfp4_ds_mla", decode_context_parallel_size=ranks)),
            {"SERVE-7"} if ranks > 2 else {"SERVE-6", "SERVE-7"},
        )
        for ranks in (2, 3, 4, 8)
    },
    **{
        f"accepts {dtype} with MLA": (server(having(uses_mla=True, kv_cache_dtype=dtype)), {"SERVE-8"})
        for dtype in ("nvfp4_4over6", "int8_per_token_head", "fp8_e5m2", "fp8_inc")
    },
    **{
        f"refuses {dtype} with MLA": (server(having(uses_mla=True, kv_cache_dtype=dtype), never), {"SERVE-10"})
        for dtype in GATHERS
        if dtype != "nvfp4_ds_mla"
    },
    **{
        f"refuses {dtype} without MLA": (server(having(uses_mla=False, kv_cache_dtype=dtype), never), {"SERVE-10"})
        for dtype in ("auto", "fp8", "int8_per_token_head")
    },
    "every backend but one refused, for all": (
        server(lambda c: c.attention_backend == "TRITON_MLA" and not nvfp4(c), never),
        {"SERVE-10"},
    ),
    "another geometry refused for all": (
        server(lambda c: c.kv_lora_rank == 256 and not nvfp4(c), never),
        {"SERVE-10"},
    ),
    "another capability refused for fp8_ds_mla": (
        server(lambda c: c.compute_capability == (9, 0) and c.kv_cache_dtype == "fp8_ds_mla", never),
        {"SERVE-10"},
    ),
    "decode context parallelism refused for auto": (
        server(lambda c: c.decode_context_parallel_size > 1 and c.kv_cache_dtype == "auto", never),
        {"SERVE-10"},
    ),
    "accepts no MLA where there is no rank": (server(lambda c: c.kv_lora_rank == 0), {"SERVE-3"}),
}


@pytest.mark.parametrize(("faulty_server", "clauses"), STARTUPS.values(), ids=STARTUPS)
def test_a_startup_that_is_wrong_in_places_is_seen_under_its_clause_alone(
    faulty_server: Target, clauses: set[str]
) -> None:
    assert red(faulty_server, startups()) == clauses
