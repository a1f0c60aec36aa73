"""MERGE's judge: right merges of every kind conform, and each wrong one is seen by cases that are about its fault."""

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from conformance import merge_cases as cases
from conformance.faults.merges import DEFECTS
from conformance.faults.stepwise import Stepwise
from conformance.judge import Judge
from conformance.memory import ArrayMemory, Memory, TorchMemory
from conformance.merge_calls import MALFORMED, must_accumulate, must_merge_anew, must_refuse_merge
from conformance.merge_cases import NAMED, STRIDED, cases_of
from conformance.merge_generation import FINITE, KINDS, encode, mixed
from conformance.merges import MergeObservation, compare, expected_lse, expected_output, judge_merge
from conformance.observe import Observation
from conformance.roundings import BINARIES
from conformance.selfcheck.merging_targets import RIGHT
from conformance.selfcheck.running import gate
from conformance.targets.base import MERGE, Target
from conformance.targets.models import NumpyTarget, TorchTarget
from conformance.verdict import Crashed, Differs
from fixtures.merge_cases import MergeCase, place_merge
from fixtures.placement import POISONS, ZERO


def strided(kind: str) -> list[MergeCase]:
    return [mixed(5, 3, 64, kind, 1, arrangement=how) for how in STRIDED.values()]


def every_pair(kind: str) -> list[MergeCase]:
    return [cases.every_pair_of_bf16()]


CAUGHT: dict[str, tuple[Callable[[str], Any], str, str]] = {
    "plus-infinity-has-weight": (cases.plus_infinity_beside_garbage, "bf16", r"s inf, P 0.5.*\n.*got 0x7FFF nan"),
    "nan-without-keys": (cases.both_without_keys, "bf16", "p -inf, s -inf.*\n.*expected 0 .*nan"),
    "multiplies-stale-output": (cases.plus_infinity_beside_garbage, "binary32", "S nan"),
    "prefix-without-keys": (cases.both_without_keys, "bf16", "p -inf, s -inf, P nan.*\n.*expected 0 "),
    "lses-read-to-base-2": (cases.both_without_keys, "bf16", "p 0, s 1, P 0.5, S 0.25"),
    "lse-to-base-2": (cases.every_difference_of_lses, "bf16", "output_lse: expected "),
    "lse-scaled-from-base-2": (cases.every_difference_of_lses, "bf16", "output_lse: expected "),
    "plus-infinity-in-the-lse": (cases.every_state_alone, "bf16", "output_lse: expected -inf"),
    "weights-of-bf16": (every_pair, "bf16", "output: expected "),
    "adds-in-bf16": (every_pair, "bf16", "output: expected "),
    "truncates-to-bf16": (every_pair, "bf16", "output: expected "),
    "without-a-maximum": (cases.every_difference_of_lses, "binary16", "p (9|1)[0-9.e+]*, "),
    "divides-last": (cases.zeros_subnormals_and_the_largest, "bf16", r"S \+?\d.*e\+38(.*\n)*.*inf"),
    "drops-below-11": (cases.every_difference_of_lses, "binary32", "p 0, s -12"),
    "drops-below-12": (cases.every_difference_of_lses, "binary32", "p 0, s -13"),
    "plus-infinity-in-wide-heads": (cases.states_mixed_in_one_call, "bf16", r"(.*\n)*.*H, D\]=\[9, 3, 576\]"),
    "multiplies-stale-output-if-strided": (cases.states_mixed_in_strided_arrays, "bf16", "0x7FFF nan"),
    "empty-not-written-in-place": (
        cases.states_mixed_in_place,
        "bf16",
        r"p -?inf, s -?inf(.*\n)*.*output in prefix_output",
    ),
    "weights-swapped": (cases.both_without_keys, "bf16", "p 0, s 1"),
    "flushes-subnormals": (cases.every_pair_of_states, "bf16", "expected -?[1-9.]*e-(39|4.).*0x[08]000"),
    "strides-ignored": (strided, "bf16", "padded|inner=64"),
    "lse-strides-ignored": (strided, "bf16", "prefix_lse: outer"),
    "lses-tokens-first": (cases.states_mixed_in_one_call, "bf16", "token 0 head [1-9]"),
    "lse-not-written": (cases.both_without_keys, "bf16", "output_lse: expected .*got 0x7FC00000 nan"),
    "weights-of-head-0": (cases.plus_infinity_beside_garbage, "bf16", "token 1 head 1"),
    "branches-once-a-token": (cases.states_mixed_in_one_call, "bf16", "head [1-9]"),
    "last-element-left": (cases.shapes, "bf16", "element 63: "),
    "empty-not-written": (cases.both_without_keys, "binary32", "expected 0 .*got 0x7FC00000 nan"),
    "whole-vectors": (cases.shapes, "bf16", "output: written outside its elements"),
    "lse-written-first": (cases.in_place, "bf16", "output_lse in prefix_lse"),
    "prefix-staged": (cases.in_place, "bf16", "output in suffix_output"),
    "input-changed": (cases.every_state_alone, "bf16", "suffix_lse: an input, but overwritten at"),
}
"""By which cases, of which type, and with what words."""


WRONG = {defect.name: defect for defect in DEFECTS}


def of(name: str) -> Target:
    return WRONG[f"merge-{name}"].target()


def judged(target: Target, some: MergeCase | list[MergeCase]) -> None:
    for case in some if isinstance(some, list) else [some]:
        judge_merge(Judge(target, ("MERGE-1",)), case)


@pytest.mark.parametrize("name", CAUGHT)
def test_a_faulty_merge_is_seen_by_the_cases_that_are_about_its_fault(name: str) -> None:
    named, kind, says = CAUGHT[name]
    with pytest.raises(Differs, match=says):
        judged(of(name), named(kind))


def test_a_merge_that_remembers_weights_is_seen() -> None:
    with pytest.raises(Differs):
        must_merge_anew(Judge(of("remembers-weights")), "bf16")
    must_merge_anew(Judge(Stepwise()), "bf16")


def all_cases(kind: str) -> Iterator[MergeCase]:
    for named in NAMED:
        yield from cases_of(named, kind)
    yield from cases.shapes(kind)
    yield from (*strided(kind), *cases.in_place(kind), *cases.one_for_all(kind))
    yield cases.strides_that_mean_nothing(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("right", RIGHT, ids=lambda kind: kind.__name__)
def test_a_merge_that_is_right_in_another_way_conforms(right: type[Stepwise], kind: str) -> None:
    judged(right(), list(all_cases(kind)))
    must_accumulate(Judge(right()), kind)


@pytest.mark.parametrize("right", RIGHT, ids=lambda kind: kind.__name__)
def test_every_pair_is_within_bounds_for_a_merge_that_is_right_in_another_way(right: type[Stepwise]) -> None:
    judged(right(), cases.every_pair_of_bf16())


@pytest.mark.parametrize(
    ("p", "s", "P", "S", "output", "lse"),
    [
        (0.0, 0.0, 1.0, 3.0, 2.0, np.log(2.0)),
        (0.0, np.log(3.0), 4.0, 8.0, 7.0, np.log(4.0)),
        (-np.inf, 5.0, np.nan, -3.0, -3.0, 5.0),
        (7.0, np.inf, 2.5, np.inf, 2.5, 7.0),
        (-np.inf, np.inf, np.nan, np.inf, 0.0, -np.inf),
        (-np.inf, -np.inf, 6.0, 7.0, 0.0, -np.inf),
        (1e4, -1e4, 1.0, 100.0, 1.0, 1e4),
    ],
)
@pytest.mark.parametrize("model", [NumpyTarget(), TorchTarget()], ids=["numpy", "torch"])
def test_the_models_merge_what_was_worked_out_by_hand(
    model: Target, p: float, s: float, P: float, S: float, output: float, lse: float
) -> None:
    lses = np.array([p, s, 9.0], np.float32).reshape(3, 1, 1)
    outputs = np.array([P, S, 9.0], np.float32).reshape(3, 1, 1, 1)
    arrays: list[Any] = [outputs[2], outputs[0], lses[0], outputs[1], lses[1], lses[2]]
    if isinstance(model, TorchTarget):
        import torch

        arrays = [torch.from_numpy(array) for array in arrays]
    model.merge_attn_states(*arrays)
    assert outputs[2].item() == output
    assert lses[2].item() == pytest.approx(lse, rel=2.0**-23)


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_number_within_the_bound_conforms_and_the_next_one_differs(kind: str) -> None:
    case = mixed(5, 3, 64, kind, 1, FINITE)
    ends, of_lse = expected_output(case), expected_lse(case)
    last, last_lse = encode(ends.high, kind), of_lse.low.astype(np.float32)
    last_lse = np.where(last_lse < of_lse.low, np.nextafter(last_lse, np.float32(np.inf)), last_lse)
    around = Observation(POISONS[0], np.zeros(0))
    compare(Judge(NumpyTarget()), case, MergeObservation(last, last_lse, around))
    at = tuple(np.argwhere(ends.high > 1)[0])
    last.view(f"u{last.itemsize}")[at] += 1
    with pytest.raises(Differs, match=f"token {at[0]} head {at[1]} element {at[2]}: .*\n.*\n  1 of 960 elements"):
        compare(Judge(NumpyTarget()), case, MergeObservation(last, last_lse, around))
    last.view(f"u{last.itemsize}")[at] -= 1
    last_lse[2, 1] = np.nextafter(last_lse[2, 1], np.float32(-np.inf))
    with pytest.raises(Differs, match=r"token 1 head 2: .*\n.*\n  1 of 15 LSEs"):
        compare(Judge(NumpyTarget()), case, MergeObservation(last, last_lse, around))


@pytest.mark.parametrize("name", KINDS)
def test_numbers_are_rounded_as_casts_round_them(name: str) -> None:
    form, rng = BINARIES[KINDS[name]], np.random.default_rng(1)
    drawn = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    x = drawn[np.isfinite(drawn)].astype(np.float64)
    x = np.concatenate([x, np.exp2(rng.uniform(-30, 17, 1 << 14)), [form.largest, np.inf, -np.inf, 0.0]])
    ties = form.nearest(x[:1000]) * (1 + 2.0**-form.digits)
    x = np.concatenate([x, ties[np.isfinite(ties)]])
    if name == "bf16":
        x = x.astype(np.float32).astype(np.float64)  # ml_dtypes rounds binary64 twice
    with np.errstate(over="ignore"):
        cast = x.astype(ml_dtypes.bfloat16 if name == "bf16" else KINDS[name]).astype(np.float64)
    assert (form.nearest(x) == cast).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("memory", [ArrayMemory(), TorchMemory()], ids=["numpy", "torch"])
def test_arrays_of_every_type_are_placed_read_back_and_watched(memory: Memory, kind: str) -> None:
    for how in ("padded heads", "heads outermost and apart", "LSE elements apart"):
        case = mixed(3, 2, 64, kind, 2, arrangement=STRIDED[how])
        for poison in (*POISONS, ZERO):
            for name, placement in place_merge(case, poison).items():
                region = memory.place(placement)
                held = memory.read(region)
                assert held.dtype == placement.data.dtype and held.tobytes() == placement.data.tobytes(), name
                assert memory.strays(region) == []
                region.base[region.first + placement.size - placement.before - placement.after] = 77
                assert memory.strays(region) == [placement.size - placement.before - placement.after]


@pytest.mark.parametrize("model", [NumpyTarget(), TorchTarget()], ids=["numpy", "torch"])
def test_the_models_refuse_an_lse_of_nan_and_an_infinite_number_of_weight(model: Target) -> None:
    for name, at in (("prefix_lse", (0, 0)), ("suffix_output", (1, 0, 3))):
        case = mixed(2, 1, 8, "binary32", 1, [(0.5, 1.5)])
        getattr(case, name)[at] = np.nan
        with pytest.raises(Crashed, match=name):
            judged(model, case)


class Refusing(Stepwise):
    """Refuses what does not lie in one piece, in words of its own."""

    says, writes = "prefix_output has a head stride that is not D", False

    def merge_attn_states(self, output: Any, prefix_output: Any, *others: Any, **named: Any) -> None:
        if not prefix_output.flags.c_contiguous:
            if self.writes:
                output[...] = 0
            raise ValueError(self.says)
        super().merge_attn_states(output, prefix_output, *others, **named)


class RefusingWithoutAName(Refusing):
    says = "bad strides of some_prefix_output"


class RefusingAfterItWrote(Refusing):
    writes = True


class RefusingAll(Stepwise):
    def merge_attn_states(self, *arguments: Any, **named: Any) -> None:
        raise ValueError("prefix_output: not today")


def test_a_stride_may_be_refused_by_name_with_nothing_written() -> None:
    padded = mixed(5, 3, 64, arrangement=STRIDED["padded heads"])
    judged(Refusing(), [padded, mixed(5, 3, 64)])
    with pytest.raises(Differs, match="prefix_output or suffix_output: not named in ValueError: bad strides"):
        judged(RefusingWithoutAName(), padded)
    with pytest.raises(Differs, match="but wrote"):
        judged(RefusingAfterItWrote(), padded)
    with pytest.raises(Crashed, match="not today"):
        judged(RefusingAll(), mixed(5, 3, 64))
    judged(RefusingAll(), mixed(5, 3, 63))


def test_a_merge_that_accepts_what_is_malformed_is_seen() -> None:
    class Lenient(NumpyTarget):
        def merge_attn_states(self, *arguments: Any, **named: Any) -> None:
            pass

    for malformed in MALFORMED:
        with pytest.raises(Differs, match=f"{malformed.argument} .*: accepted"):
            must_refuse_merge(Judge(Lenient()), malformed, "bf16")


def test_a_merge_that_accepts_other_lses_where_it_writes_none_is_seen() -> None:
    class ComparesLsesWithTheResult(NumpyTarget):
        def merge_attn_states(self, *arguments: Any, **named: Any) -> None:
            if named["output_lse"] is not None:
                super().merge_attn_states(*arguments, **named)

    for malformed in (row for row in MALFORMED if row.argument != "output_lse"):
        with pytest.raises(Differs, match=f"{malformed.argument} .*: accepted"):
            must_refuse_merge(Judge(ComparesLsesWithTheResult()), malformed, "bf16")


def test_a_small_call_has_its_states_from_the_whole_table() -> None:
    case = mixed(5, 3, 64, seed=1)
    assert len(np.unique(np.maximum(case.prefix_lse, case.suffix_lse))) > 4
    twice = mixed(2, 4, 8, pairs=[(0.0, 1.0), (2.0, 3.0), (4.0, 5.0), (6.0, 7.0)])
    assert sorted(twice.prefix_lse.ravel()) == [0, 0, 2, 2, 4, 4, 6, 6]


def test_an_accumulation_that_loses_a_partial_is_seen() -> None:
    with pytest.raises(Differs, match="after four merges in place"):
        must_accumulate(Judge(of("weights-swapped")), "bf16")


def test_a_faulty_merge_turns_the_gate_red_and_is_explained() -> None:
    target = "fault:merge-prefix-without-keys"
    done = gate("conformance/gate/test_merge.py", "--target", target, "-k", "broke_real and bf16")
    assert done.returncode == 1, done.stdout[-2000:]
    assert "p -inf, s -inf, P nan" in done.stdout and "MERGE-5" in done.stdout


def test_a_target_without_the_capability_is_not_asked() -> None:
    assert MERGE in NumpyTarget.capabilities
    done = gate("conformance/gate/test_merge.py", "--target", "conformance.selfcheck.one_format:WritesFp8Only")
    assert done.returncode == 5, done.stdout[-2000:]
