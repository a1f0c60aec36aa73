"""SERVE: which gather reads which cache, with which arguments, and what is refused at startup."""

from dataclasses import replace

import pytest

from conformance.contexts import batches
from conformance.judge import Judge
from conformance.serving import judge_message, judge_operator, judge_refusal, judge_rows, judge_start, named
from conformance.startups import RULES, STARTS
from fixtures.serve_cases import FP8_SITES, SITES
from reference.serving import GATHERS, PER_TENSOR, Serving

DISPATCHES = [(site, cache) for site in SITES for cache in GATHERS]


@pytest.mark.clause("SERVE-1")
@pytest.mark.parametrize(("site", "cache"), DISPATCHES)
def test_context_is_gathered_by_an_operator_that_reads_its_records(judge: Judge, site: str, cache: str) -> None:
    for case in batches(site):
        judge_operator(judge, site, case, cache)


@pytest.mark.clause("SERVE-1")
@pytest.mark.parametrize("site", FP8_SITES)
@pytest.mark.parametrize("cache", PER_TENSOR)
def test_a_workspace_of_fp8_is_filled_by_copying(judge: Judge, site: str, cache: str) -> None:
    for case in batches(site):
        judge_operator(judge, site, replace(case, workspace="fp8"), cache)


@pytest.mark.clause("SERVE-2")
@pytest.mark.parametrize("site", FP8_SITES)
@pytest.mark.parametrize("cache", PER_TENSOR)
def test_a_gather_into_fp8_is_handed_its_own_chunk(judge: Judge, site: str, cache: str) -> None:
    for case in batches(site):
        judge_rows(judge, site, replace(case, workspace="fp8"), cache)


@pytest.mark.clause("SERVE-2")
@pytest.mark.parametrize(("site", "cache"), DISPATCHES)
def test_a_gather_is_handed_its_own_chunk(judge: Judge, site: str, cache: str) -> None:
    for case in batches(site):
        judge_rows(judge, site, case, cache)


BROKEN = [(clause, config) for clause, rule in RULES.items() for config in rule.configs]


def of(clause: str) -> pytest.MarkDecorator:
    configs = RULES[clause].configs + RULES[clause].also
    return pytest.mark.parametrize("config", configs, ids=map(named, configs))


@pytest.mark.clause("SERVE-3")
@of("SERVE-3")
def test_a_model_without_mla_is_refused(judge: Judge, config: Serving) -> None:
    judge_refusal(judge, "SERVE-3", config)


@pytest.mark.clause("SERVE-4")
@of("SERVE-4")
def test_another_geometry_is_refused(judge: Judge, config: Serving) -> None:
    judge_refusal(judge, "SERVE-4", config)


@pytest.mark.clause("SERVE-5")
@of("SERVE-5")
def test_another_backend_is_refused(judge: Judge, config: Serving) -> None:
    judge_refusal(judge, "SERVE-5", config)


@pytest.mark.clause("SERVE-6")
@of("SERVE-6")
def test_another_compute_capability_is_refused(judge: Judge, config: Serving) -> None:
    judge_refusal(judge, "SERVE-6", config)


@pytest.mark.clause("SERVE-7")
@of("SERVE-7")
def test_decode_context_parallelism_is_refused(judge: Judge, config: Serving) -> None:
    judge_refusal(judge, "SERVE-7", config)


@pytest.mark.clause("SERVE-8")
@of("SERVE-8")
def test_a_cache_that_no_gather_reads_is_refused_with_mla(judge: Judge, config: Serving) -> None:
    judge_refusal(judge, "SERVE-8", config)


@pytest.mark.clause("SERVE-9")
@pytest.mark.parametrize(("clause", "config"), BROKEN, ids=[f"{clause} {named(config)}" for clause, config in BROKEN])
def test_a_refusal_says_what_to_change(judge: Judge, clause: str, config: Serving) -> None:
    judge_message(judge, clause, config)


@pytest.mark.clause("SERVE-10")
@pytest.mark.parametrize("config", STARTS, ids=map(named, STARTS))
def test_a_configuration_that_breaks_no_rule_starts(judge: Judge, config: Serving) -> None:
    judge_start(judge, config)
