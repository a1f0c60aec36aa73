"""A malformed call that goes wrong leaves a case that replays, and leaves room for the fixtures of other clauses."""

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from conformance import calls, merge_calls, write_calls
from conformance.calls import good_call, must_ignore_unused_strides, must_refuse, refuses_or_conforms
from conformance.faults.defects import find_defect
from conformance.generics import over, with_spare_rows
from conformance.judge import Judge
from conformance.malformed import judge_malformed
from conformance.merge_calls import must_refuse_merge
from conformance.merge_generation import mixed
from conformance.replaying.dumps import Dumps
from conformance.replaying.replay import CANNOT, CONFORMS, DIFFERS, replay
from conformance.selfcheck.running import gate, run
from conformance.selfcheck.storing import stored
from conformance.selfcheck.unchecked import (
    HeedsUnusedStrides,
    MisreadsShiftedCaches,
    Unchecked,
    WithoutStarts,
    WithoutStartsUnchecked,
)
from conformance.showing.command import show_file
from conformance.targets.base import LAYOUTS, Target
from conformance.targets.models import NumpyTarget
from conformance.verdict import Crashed, Differs, Unsupported
from conformance.write_calls import good_write, longer_write, must_refuse_dtype
from fixtures.cases import Arrangement, GatherCase
from fixtures.merge_cases import MergeCase
from fixtures.store import Fixture, clause_in, load, save
from fixtures.write_cases import WriteCase

CALLS, GEOMETRY = "conformance/gate/test_calls.py", "conformance/gate/test_geometry.py"
OF = "conformance.selfcheck.unchecked"


def told(path: Path, target: str) -> tuple[int, str]:
    """Return the exit code of a replay in this process, and what it says."""
    lines: list[str] = []
    return replay(path, target, lines.append), "\n".join(lines)


def wholes(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*.safetensors") if "-small" not in path.name)


def test_malformed_calls_take_their_share_of_the_dumps_and_a_later_difference_has_its_own(tmp_path: Path) -> None:
    target = f"{OF}:UncheckedAndWrong"
    chosen = ("-k", "malformed or (broke_real and last_column)")
    done = gate(CALLS, GEOMETRY, *chosen, "--target", target, "--dump-dir", str(tmp_path))
    of_clauses = [clause_in(path.name) for path in wholes(tmp_path)]
    assert sorted(of_clauses) == ["GATHER-1", *["GATHER-11"] * 4]
    assert "no fixture: this run has written 4 of GATHER-11, its share of 32 (--dump-limit)" in done.stdout
    for path in wholes(tmp_path):
        code, said = told(path, target)
        assert code == DIFFERS and path.name.startswith("gather-"), said
        assert (": accepted" in said) == ("GATHER-11" in path.name)
        assert "running" not in said and told(path, "numpy")[0] == CONFORMS


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("nothing-refused", "src_cache int32: accepted"),
        ("refused-without-a-name", "src_cache int32: not named in"),
        ("refused-too-late", "but wrote"),
    ],
)
def test_a_replay_of_a_malformed_call_says_what_the_gate_said(fault: str, says: str, tmp_path: Path) -> None:
    done = gate(
        CALLS, "-k", "malformed and src_cache and int32", "--target", f"fault:{fault}", "--dump-dir", str(tmp_path)
    )
    (path,) = wholes(tmp_path)
    assert says in done.stdout and clause_in(path.name) == "GATHER-11"
    again = run("conformance", "replay", str(path))
    assert again.returncode == DIFFERS and says in again.stdout


def test_a_malformed_call_that_takes_its_process_down_leaves_its_case(tmp_path: Path) -> None:
    target = f"{OF}:DiesOfInt32"
    gate(CALLS, "-k", "malformed and src_cache and int32", "-n", "1", "--target", target, "--dump-dir", str(tmp_path))
    (path,) = wholes(tmp_path)
    assert clause_in(path.name) == "GATHER-11" and load(path).about["question"] == "malformed src_cache int32"
    again = run("conformance", "replay", str(path), "--target", target)
    assert again.returncode == DIFFERS and "ended with signal 11" in again.stdout
    assert told(path, "numpy")[0] == CONFORMS


def fault(name: str) -> Target:
    return find_defect(name).named_target()


def over_layout(name: str) -> GatherCase:
    return with_spare_rows(over(good_call(), LAYOUTS[name]), 0)


OF_WRITES = {each.name: each for each in write_calls.MALFORMED}
OF_MERGES = {each.name: each for each in merge_calls.MALFORMED}
SHIFTED = Arrangement(cache_shift=8)
Ask = Callable[[Judge], None]
ASKED: dict[str, tuple[Target, Ask]] = {
    "gather": (Unchecked(), lambda judge: must_refuse(judge, calls.MALFORMED[0])),
    "gather without starts": (WithoutStartsUnchecked(), lambda judge: must_refuse(judge, calls.MALFORMED[2])),
    "gather of fp8_ds_mla": (
        fault("fp8_ds_mla-nothing-refused"),
        lambda judge: must_refuse(judge, calls.MALFORMED[0], over_layout("fp8_ds_mla")),
    ),
    "gather of auto": (
        fault("numbers-alike-nothing-refused"),
        lambda judge: must_refuse(judge, calls.OTHER_CACHE["auto"], over_layout("auto")),
    ),
    "misaligned": (
        MisreadsShiftedCaches(),
        lambda judge: refuses_or_conforms(judge, replace(good_call(), arrangement=SHIFTED), "src_cache"),
    ),
    "strides": (HeedsUnusedStrides(), lambda judge: must_ignore_unused_strides(judge, "block_table")),
    "write": (
        fault("write-int32-slots-accepted"),
        lambda judge: write_calls.must_refuse(judge, OF_WRITES["slot_mapping int32"], "nvfp4_ds_mla"),
    ),
    "write of no name": (fault("write-refusal-names-nothing"), lambda judge: must_refuse_dtype(judge, None)),
    "merge": (
        fault("merge-accepts-malformed"),
        lambda judge: must_refuse_merge(judge, OF_MERGES["output of rank 2"], "bf16"),
    ),
}


@pytest.mark.parametrize(("faulty", "ask"), ASKED.values(), ids=ASKED)
def test_a_call_of_any_operator_replays_and_is_shown(faulty: Target, ask: Ask, tmp_path: Path) -> None:
    judge = Judge(faulty, ["GATHER-11"])
    with pytest.raises(Differs) as caught:
        ask(judge)
    dumps, page = Dumps(tmp_path, 8, "main", 0.0, {}), tmp_path / "page.html"
    path, lines = dumps.keep(judge, "a test", faulty.name, "differs", caught.value)
    assert path and path.name.split("-GATHER-11-")[0] == load(path).operator
    assert load(path).about["alone"] is True
    assert told(path, "numpy")[0] == CONFORMS
    kind, _, change = load(path).about["question"].partition(" ")
    assert kind != "malformed" or not any("smaller" in line for line in lines)
    console = Console(file=io.StringIO(), width=200)
    assert show_file(path, None, None, console, console) == 0 == show_file(path, page, None, console, console)
    for shown in (console.file.getvalue(), page.read_text()):  # type: ignore[attr-defined]
        assert "GATHER-11" in shown and (kind != "malformed" or escape(change) in shown)


def every_malformed_call() -> Iterator[tuple[str, Any]]:
    """Yield the name of each change, and the good call of an operator and of its records that it belongs to."""
    for malformed in calls.MALFORMED:
        yield malformed.name, good_call()
        if malformed.found != "of records of 656 bytes":
            yield malformed.name, over_layout("fp8_ds_mla")
    for name in ("auto", "fp8"):
        for malformed in (*calls.MALFORMED_GENERIC, calls.OTHER_CACHE[name]):
            yield malformed.name, over_layout(name)
    for malformed in (*write_calls.MALFORMED, *write_calls.MALFORMED_DTYPES.values()):
        yield malformed.name, good_write()
        yield malformed.name, longer_write("fp8")
    for merge in merge_calls.MALFORMED:
        yield merge.name, mixed(5, 3, 64, "bf16", 13)


def test_every_malformed_call_is_refused_by_its_name_as_it_comes_from_a_file(tmp_path: Path) -> None:
    judge, kinds = Judge(NumpyTarget()), set()
    for name, good in every_malformed_call():
        judge_malformed(judge, name, stored(good, tmp_path / "case"))
        kinds.add(type(good))
    assert kinds == {GatherCase, WriteCase, MergeCase}


def test_the_names_of_malformed_calls_are_unique() -> None:
    for table in (
        calls.MALFORMED,
        [*calls.MALFORMED_GENERIC, *calls.OTHER_CACHE.values()],
        [*write_calls.MALFORMED, *write_calls.MALFORMED_DTYPES.values()],
        merge_calls.MALFORMED,
    ):
        names = [each.name for each in table]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["dst of no such kind", "", "kv_c int16"])
def test_an_unknown_malformed_call_cannot_be_judged(name: str, tmp_path: Path) -> None:
    save(Fixture(good_call(), about={"question": f"malformed {name}"}), tmp_path / "case")
    code, said = told(tmp_path / "case", "numpy")
    assert code == CANNOT and f"there is no malformed call {name!r} of a GatherCase" in said


@pytest.mark.parametrize("malformed", calls.MALFORMED, ids=lambda m: m.name)
def test_a_gather_without_starts_is_judged_by_what_is_not_about_them(malformed: calls.Malformed) -> None:
    if "seq_starts" in (malformed.argument, malformed.changed):
        with pytest.raises(Unsupported):
            must_refuse(Judge(WithoutStarts()), malformed)
        return
    judge = Judge(WithoutStarts())
    must_refuse(judge, malformed)
    assert judge.count.cases == 1
    with pytest.raises((Differs, Crashed), match="accepted"):
        must_refuse(Judge(WithoutStartsUnchecked()), malformed)
    judge = Judge(NumpyTarget())
    must_refuse(judge, malformed)
    assert judge.count.cases == 2


def test_the_gate_judges_a_gather_without_starts_by_its_calls() -> None:
    done = gate(CALLS, "--target", f"{OF}:WithoutStarts")
    left = [line for line in done.stdout.splitlines() if line.strip().startswith("unsupported  ")]
    assert left and all("starts]" in line or "seq_starts" in line for line in left)
    assert "differs" not in done.stdout and "crashed" not in done.stdout
