"""What a campaign counts: classes that are declared beforehand, hit by cases made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from conformance.drawing import for_each
from conformance.gate.test_metadata import batches
from conformance.gate.test_plan import plans
from conformance.generation import Geometry, realize
from conformance.generics import over
from conformance.merge_generation import mixed
from conformance.merge_strategies import merge_cases
from conformance.reports.classes_of_gathers import SIZES_AND_STARTS, length_class, start_class
from conformance.reports.classes_of_numbers import kinds_of, nan_bytes, sized
from conformance.reports.coverage import OTHER, Coverage, Domain
from conformance.reports.domains import DOMAINS, domain_of, nothing_yet
from conformance.scenarios.workloads import workloads
from conformance.strategies import gather_cases, twin_cases, write_cases
from conformance.workspaces import WorkspaceCase
from fixtures.cases import Arrangement, GatherCase
from fixtures.merge_cases import Slack
from fixtures.write_cases import WriteArrangement, WriteCase
from reference.records import FP8_DS_MLA, GENERIC

RANDOM: dict[str, st.SearchStrategy[Any]] = {
    "gather nvfp4_ds_mla": gather_cases(with_starts=True) | gather_cases(with_starts=False),
    "gather fp8_ds_mla": twin_cases(FP8_DS_MLA, True),
    "gather auto": twin_cases(GENERIC["auto", 576], True),
    "gather fp8": twin_cases(GENERIC["fp8", 576], False),
    **{f"write {form}": write_cases(form) for form in ("nvfp4_ds_mla", "fp8_ds_mla", "auto", "fp8")},
    **{f"merge {kind}": merge_cases(kind) for kind in ("bf16", "binary16", "binary32")},
    "plan": plans(),
    "metadata": batches(st.integers(1, 9)),
    "workspace": st.builds(WorkspaceCase, st.sampled_from(("dense", "sparse")), *[st.integers(1, 9)] * 6),
    "workload": workloads(),
}


def hits(case: Any) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for each, value in DOMAINS[domain_of(case)].hits(case):
        found.setdefault(each, set()).add(value)
    return found


def test_there_is_a_domain_for_each_kind_of_random_case() -> None:
    assert set(RANDOM) == set(DOMAINS)


@pytest.mark.parametrize("name", RANDOM)
def test_random_cases_have_declared_values_of_declared_classes(name: str) -> None:
    seen: set[str] = set()

    def look(case: Any) -> None:
        assert domain_of(case) == name
        found = hits(case)
        seen.update(found)
        for each, values in found.items():
            assert values <= set(DOMAINS[name].classes[each]), (each, values)

    for_each(RANDOM[name], 40, 1, look)
    assert seen == set(DOMAINS[name].classes)


def gather(
    starts: tuple[int, ...] | None, lengths: tuple[int, ...], size: int = 48, nan: int | None = None, **more: Any
) -> GatherCase:
    """A gather whose bytes are 1, but for a scale byte of the first record that is read."""
    case = realize(Geometry(size, lengths, starts, **more), 1)
    records = np.full_like(case.records, 0x38)
    case = replace(case, records=records)
    if nan is not None:
        request, _, column, slot = (int(values[0]) for values in case.sources)
        records[case.block_table[request, column], slot, 330] = nan
    return case


def test_an_unaligned_start_on_blocks_of_48_with_a_nan_scale_is_counted_as_such() -> None:
    found = hits(gather((47, 0), (3, 48), nan=0xFF, extra_blocks=1))
    assert found["block size"] == {"48"}
    assert found["start"] == {"last", "0"}
    assert found["block size and start"] == {"48, last", "48, 0"}
    assert found["block size and start, with a NaN scale"] == {"48, last", "48, 0"}
    assert found["NaN bytes among scales"] == {"0xFF"} and found["NaN bytes among RoPEs"] == {"none"}
    assert found["length"] == {"below a block", "a block"}
    assert found["requests"] == {"2"} and found["memory"] == {"contiguous"}
    assert found["rows"] == {"behind the last start"}


def test_a_nan_that_no_row_reads_is_not_counted() -> None:
    case = gather((47,), (1,))
    case.records[~case.used_records] = 0x7F
    assert hits(case)["NaN bytes among scales"] == {"none"}
    assert "block size and start, with a NaN scale" not in hits(case)


def test_the_start_of_a_request_without_rows_is_not_counted() -> None:
    assert hits(gather((5, 1), (0, 2), 16))["start"] == {"1"}
    assert hits(gather(None, (0, 2), 16))["start"] == {"no seq_starts"}


@pytest.mark.parametrize(
    ("extra", "rows"), [(0, "behind the last start"), (-3, "at the last start"), (-4, "before the last start")]
)
def test_rows_are_counted_against_the_last_start(extra: int, rows: str) -> None:
    assert hits(gather(None, (2, 3), 16, extra_rows=extra))["rows"] == {rows}
    assert hits(gather(None, (0, 0), 16))["rows"] == {"0"}


@pytest.mark.parametrize("table", ["shared", "ascending", "scattered"])
def test_tables_are_told_apart(table: str) -> None:
    assert hits(gather(None, (9, 9, 9), 2, table=table))["table"] == {table}
    assert hits(gather(None, (9,), 2, table=table))["table"] == {"one request"}


def test_what_is_not_contiguous_is_counted_by_its_name() -> None:
    how = Arrangement(cache_record_slack=16, slots_outermost=True, int_shift=4)
    assert hits(gather(None, (1,), arrangement=how))["memory"] == {"cache_record_slack", "slots_outermost", "int_shift"}


def test_starts_and_lengths_are_named_by_the_block() -> None:
    assert [start_class(start, 4) for start in range(6)] == ["0", "1", "other", "last", "whole blocks", "1"]
    assert [start_class(start, 1) for start in range(2)] == ["0", "whole blocks"]
    assert [length_class(n, 4) for n in (0, 1, 3, 4, 5, 8)] == [
        *("0", "1", "below a block", "a block", "above a block", "whole blocks")
    ]
    assert length_class(1, 1) == "a block"
    assert {pair for pair in SIZES_AND_STARTS if pair.startswith("2, ")} == {
        *("2, no seq_starts", "2, 0", "2, 1", "2, whole blocks")
    }


def test_numbers_are_sorted_by_their_bits() -> None:
    bf16 = [0x0000, 0x8000, 0x0001, 0x807F, 0x0080, 0xFF7F, 0x7F80, 0xFF80, 0x7F81, 0xFFFF]
    kinds = ["zero"] * 2 + ["subnormal"] * 2 + ["normal"] * 2 + ["infinity"] * 2 + ["NaN"] * 2
    assert [[*kinds_of(np.array([bits], np.uint16))] for bits in bf16] == [[kind] for kind in kinds]
    wide = np.array([1e-40, np.inf, -1.0], np.float32).view(np.uint32)
    assert [*kinds_of(wide)] == ["subnormal", "normal", "infinity"]
    codes: tuple[list[int], ...] = ([0x7E], [0x7F], [0xFF, 0], [0xFF, 0x7F], [])
    assert [nan_bytes(np.array(each, np.uint8)) for each in codes] == ["none", "0x7F", "0xFF", "both", "none"]
    names, which = sized(0, 1, 4)
    assert [which(n) for n in (0, 1, 3, 4, 99)] == ["0", "1 to 3", "1 to 3", "4 and more", "4 and more"]
    assert names == ("0", "1 to 3", "4 and more")


def test_the_scale_of_a_tensor_is_a_class_of_its_own() -> None:
    case = replace(over(gather(None, (2,)), GENERIC["fp8", 576]), scale=np.float32(np.inf))
    assert hits(case)["scale"] == {"infinity"}


@pytest.mark.parametrize(
    ("slots", "skipped"),
    [
        ([3, 1, 2], {"none"}),
        ([-1, 1, 2], {"the first"}),
        ([3, -1, -1], {"one between", "the last"}),
        ([-1, -1, -1], {"all"}),
    ],
)
def test_skipped_tokens_are_counted_by_their_place(slots: list[int], skipped: set[str]) -> None:
    assert hits(write(slots))["skipped"] == skipped


def write(slots: list[int], form: str = "nvfp4_ds_mla") -> WriteCase:
    tokens = len(slots)
    k_pe = np.full((tokens, 64), 0x7F00, np.uint16)
    how = WriteArrangement(k_pe_row_slack=2)
    return WriteCase(np.zeros((tokens, 512), np.uint16), k_pe, np.array(slots, np.int64), 2, 16, form, arrangement=how)


def test_the_largest_of_a_block_is_counted_by_its_kind() -> None:
    case = write([0])
    case.kv_c[0, 5] = 0x8001  # of blocks 0 to 3: a subnormal, a normal number, an infinity beside one, a NaN
    case.kv_c[0, 16] = 0xBF80
    case.kv_c[0, 32:34] = 0x3F80, 0xFF80
    case.kv_c[0, 48:50] = 0xFF80, 0x7FC0
    assert hits(case)["largest of 16"] == {"zero", "subnormal", "normal", "infinity", "NaN"}
    assert hits(write([0]))["largest of 16"] == {"zero"}
    assert hits(case)["k_pe"] == {"normal", "finite, beyond e4m3"}
    assert hits(case)["memory"] == {"k_pe_row_slack"}


def test_merges_are_counted_by_the_states_of_both_sides() -> None:
    case = mixed(2, 1, 5, pairs=((1.5, -np.inf), (np.inf, 2.0)), arrangement={"output": Slack(turned=True)})
    case = replace(
        case, prefix_lse=np.array([[1, np.inf]], np.float32), suffix_lse=np.array([[-np.inf, 0]], np.float32)
    )
    found = hits(case)
    assert found["prefix and suffix LSE"] == {"finite, -inf", "+inf, finite"}
    assert found["memory"] == {"output turned"} and found["16-byte units a head"] == {"not whole"}


def test_what_was_never_tried_is_there_with_a_zero() -> None:
    coverage = nothing_yet()
    coverage.see(gather((1,), (2,), 16))
    counts = coverage.as_json()
    assert counts["gather nvfp4_ds_mla: block size"]["16"] == 1
    assert counts["gather nvfp4_ds_mla: block size"]["48"] == 0
    never = coverage.never()
    assert "gather nvfp4_ds_mla: block size: 48" in never and "write auto: no case" in never
    assert "gather nvfp4_ds_mla: block size: 16" not in never


def test_counters_of_two_workers_add_up() -> None:
    one, other, both = nothing_yet(), nothing_yet(), nothing_yet()
    for number, coverage in enumerate((one, other, other)):
        case = gather((number,), (2,), 16)
        coverage.see(case)
        both.see(case)
    one.add(other.told())
    assert one.as_json() == both.as_json() and one.never() == both.never()


def test_a_case_counts_once_however_many_of_its_requests_have_a_value() -> None:
    coverage = nothing_yet()
    coverage.see(gather((1, 17), (2, 2), 16))
    assert coverage.as_json()["gather nvfp4_ds_mla: length"]["below a block"] == 1


def test_a_value_that_no_class_declares_counts_as_another() -> None:
    domain = Domain("numbers", {"parity": ("even",)}, lambda case: [("parity", str(case))])
    coverage = Coverage({"numbers": domain}, lambda case: "numbers")
    for case in ("even", "odd", "strange"):
        coverage.see(case)
    assert coverage.as_json() == {"numbers: parity": {"even": 1, OTHER: 2}}


def test_a_case_of_no_domain_is_not_counted() -> None:
    coverage = nothing_yet()
    coverage.see("text")
    assert not coverage.cases
