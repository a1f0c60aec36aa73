"""One cause reddens its own clauses, and a gather without seq_starts is judged in all that needs none."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conformance.selfcheck.running import gate

LIMITED = "conformance.selfcheck.limited:"
PROOF = "test_every_position_latent_byte_scale_byte_and_rope_byte"
VALUES, RANDOM, TWINS, WRITES, MERGES = (
    f"conformance/gate/test_{part}.py" for part in ("read", "random", "twin", "write_calls", "merge_calls")
)
OF_EMPTINESS = {"GATHER-10", "WRITE-8", "MERGE-9", "TWIN-1", "TWIN-5"}


def judged(target: str, folder: Path, *args: str) -> tuple[dict[str, Any], str]:
    """Return what gate.json tells of a target, and what the run says."""
    done = gate("--target", f"{LIMITED}{target}", "--explain", "0", "--report-dir", str(folder), *args)
    assert done.returncode in (0, 1, 6), done.stdout[-3000:]
    (told,) = json.loads((folder / "gate.json").read_text())["targets"]
    return told, re.sub(r"\s+", " ", done.stdout)


def red(told: dict[str, Any]) -> set[str]:
    return {clause["id"] for clause in told["clauses"] if clause["verdict"] in ("differs", "crashed")}


def test_a_target_that_raises_without_rows_is_red_under_the_clauses_of_emptiness_alone(tmp_path: Path) -> None:
    parts = ("calls", "geometry", "memory", "read", "random", "twin", "write", "write_calls", "merge", "merge_calls")
    files = [f"conformance/gate/test_{part}.py" for part in parts]
    chosen = "random or no_rows or no_requests or no_token or rows_after or broke_real or small_scope and 1-1"
    told, _ = judged("LaunchesEmptyGrids", tmp_path, *files, "-k", chosen, "-n", "2")
    assert red(told) == OF_EMPTINESS
    crashed = Counter(re.sub(r".*::|\[.*", "", each["test"]) for each in told["failures"])
    assert all(re.search("no_rows|no_requests|no_tokens|without_rows|of_no_token", test) for test in crashed), crashed


@pytest.mark.parametrize("wrong", ["IgnoresStarts", "RoundsStarts"])
def test_a_target_that_is_wrong_about_starts_reads_every_value_right(wrong: str, tmp_path: Path) -> None:
    told, _ = judged(wrong, tmp_path, VALUES, RANDOM, "conformance/gate/test_geometry.py", "-k", CHEAP)
    reds = red(told)
    assert "GATHER-2" in reds
    assert not [clause for clause in reds if clause.startswith(("READ", "RECORD", "SCALAR"))]
    seen = {clause["id"] for clause in told["clauses"] if clause["verdict"] == "conforms"}
    assert {f"READ-{number}" for number in range(1, 7)} | {f"RECORD-{number}" for number in range(1, 6)} <= seen


CHEAP = "not magnitudes and not small_scope and not every_position and not triple"


def test_random_tests_leave_out_what_other_tests_show_broken_and_say_so(tmp_path: Path) -> None:
    told, said = judged("TakesRowsToBePacked", tmp_path, RANDOM, "-k", "random_cases")
    assert told["verdict"] == "conforms"
    assert told["left_out"] == [{"what": "strides (GATHER-8)", "tests": 16}]
    assert "left out of the cases of 16 random tests, since other tests show it broken: strides (GATHER-8)" in said
    told, _ = judged("TakesRowsToBePacked", tmp_path, "conformance/gate/test_memory.py", "-k", "strided")
    assert "GATHER-8" in red(told)


SLOW = "outgrow or offsets or prompt or blocks_change or random_workloads or beyond or every_pair or random_batches"


@pytest.mark.parametrize(
    ("bare", "least", "chosen"),
    [
        ("BareGather", 300, f"not ({SLOW})"),
        pytest.param("BareGather", 350, "", marks=pytest.mark.nightly),
        pytest.param("BareGatherAndWriter", 400, f"not ({SLOW})", marks=pytest.mark.nightly),
    ],
)
def test_a_gather_without_starts_is_judged_in_all_that_needs_none(
    bare: str, least: int, chosen: str, tmp_path: Path
) -> None:
    told, _ = judged(bare, tmp_path, "-n", "2", "-k", chosen)
    assert red(told) == set()
    unjudged = {failure["test"]: failure for failure in told["failures"]}
    assert all("lacks gather.nvfp4.seq_starts" in failure["message"] for failure in unjudged.values())
    assert not [test for test in unjudged if PROOF in test or "without_starts" in test]
    assert told["tests"] - len(unjudged) >= least
    assert next(clause for clause in told["clauses"] if clause["id"] == "GATHER-2")["verdict"] == "unsupported"
    assert {"READ-1", "RECORD-4", "SCALAR-4"} <= {c["id"] for c in told["clauses"] if c["verdict"] == "conforms"}
