"""The curated vectors: they are what their descriptions give, they say what they are, and a wrong answer is red."""

import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conformance.cli import app
from conformance.faults.defects import find_defect
from conformance.spec import clauses
from conformance.targets.base import Target
from conformance.targets.kernels import HostTarget
from conformance.targets.models import NumpyTarget
from conformance.vectors import files
from conformance.vectors.flags import FLAGS, KINDS
from conformance.vectors.golden import Disputed
from conformance.vectors.run import RUNNERS, wrong_in
from conformance.vectors.vector import Json, Vector
from conformance.verdict import Unsupported

CALLED = {"read_record", "merge_attn_states", "concat_and_cache_mla", "gather_and_maybe_dequant_cache"} | {
    f"cp_gather_and_upconvert_{kind}_kv_cache" for kind in ("nvfp4", "fp8")
}
"""What this project's kernels have."""


@cache
def stored() -> dict[str, Json]:
    return {name: files.load(path) for name, path in files.stored().items()}


def every_vector() -> list[tuple[Json, Json]]:
    return [(document, vector) for document in stored().values() for vector in document["vectors"]]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder, with one operator's file to write."""
    for path in files.FOLDER.glob("*.json"):
        if path.stem in ("schema", "shards_of_context"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    monkeypatch.setattr(files, "SCHEMA_FILE", tmp_path / "schema.json")
    monkeypatch.setattr(files, "OPERATORS", [one for one in files.OPERATORS if one.name == "shards_of_context"])
    return tmp_path


def vectors(*options: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["vectors", *options])
    return done.exit_code, done.output


def test_the_files_are_what_would_be_written_and_two_sources_agree_on_each_vector() -> None:
    exit_code, said = vectors("--check")
    assert exit_code == 0, said


def test_a_file_with_another_byte_is_said_to_differ_and_is_written_again(elsewhere: Path) -> None:
    path = elsewhere / "shards_of_context.json"
    right = path.read_text()
    path.write_text(right.replace('"local_start": 2', '"local_start": 3', 1))
    assert vectors("--check") == (1, "shards_of_context.json differs: python -m conformance vectors writes it\n")
    assert vectors()[0] == 0 and path.read_text() == right


def test_a_file_that_is_missing_or_of_no_operator_is_named(elsewhere: Path) -> None:
    (elsewhere / "shards_of_context.json").rename(elsewhere / "old.json")
    exit_code, said = vectors("--check")
    assert exit_code == 1 and "shards_of_context.json is missing" in said and "old.json is of no operator" in said
    assert vectors()[0] == 0 and not (elsewhere / "old.json").exists()


def test_nothing_is_written_where_the_two_sources_disagree(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (operator,) = files.OPERATORS
    before = (elsewhere / "shards_of_context.json").read_bytes()

    def wrong(vector: Vector) -> Json:
        return {**operator.expected(vector), "local_start": 99}

    monkeypatch.setattr(files, "OPERATORS", [type(operator)(**{**vars(operator), "expected": wrong})])
    exit_code, said = vectors()
    assert exit_code == 1 and "nothing is written" in said and "local_start: dealt 2, not 99" in said
    assert (elsewhere / "shards_of_context.json").read_bytes() == before


def test_the_folder_is_small_and_has_vectors_of_every_operator() -> None:
    assert sum(path.stat().st_size for path in files.FOLDER.iterdir()) < 1 << 20
    assert len(every_vector()) >= 200
    scalars = {f"{way}_{form}" for way in ("decode", "encode") for form in ("e2m1", "e4m3")} | {"encode_bf16"}
    assert {document["operator"] for document in stored().values()} == {*RUNNERS, *scalars, "shards_of_context"}


def test_ids_are_unique_and_come_from_the_input_alone() -> None:
    ids = [vector["id"] for _, vector in every_vector()]
    assert len(ids) == len(set(ids))
    for operator in files.OPERATORS:
        for vector in stored()[f"{operator.stem}.json"]["vectors"]:
            assert vector["id"] == operator.id_of(vector["input"])


def test_every_flag_is_used_and_explained_and_every_clause_exists() -> None:
    used = {flag for _, vector in every_vector() for flag in vector["flags"]}
    assert used == set(FLAGS) and {flag.kind for flag in FLAGS.values()} <= set(KINDS)
    for document, vector in every_vector():
        assert set(vector["flags"]) <= set(document["flags"]) and vector["clause"] in clauses()
    in_links = {link.removeprefix("SPEC.md ") for flag in FLAGS.values() for link in flag.links if "SPEC" in link}
    assert in_links <= set(clauses())


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"operator": "startup"},
        {"vectors": []},
        {"flags": {"Basic": {"kind": "odd", "effect": "", "links": []}}},
        {"more": 1},
    ],
    ids=str,
)
def test_the_schema_refuses_what_is_no_such_file(change: Json) -> None:
    told = json.loads((files.FOLDER / "read_record.fp8_ds_mla.json").read_text())
    files.validate("as it is", told)
    with pytest.raises(Disputed, match="as changed"):
        files.validate("as changed", {**told, **change})


def wrong(target: Target, document: Json, given: Any, expected: Any) -> list[str]:
    return wrong_in(target, document["operator"], document.get("layout"), given, expected)


def test_the_kernels_pass_every_vector_of_their_operators() -> None:
    target = HostTarget()
    if reason := target.unavailable():
        pytest.skip(reason)
    asked = [(one, vector) for one, vector in every_vector() if one["operator"] in CALLED]
    told = {vector["id"]: wrong(target, one, vector["input"], vector["expected"]) for one, vector in asked}
    assert {vector: lines for vector, lines in told.items() if lines} == {} and len(told) > 140


def test_the_golden_model_passes_every_vector_that_a_target_can_be_asked() -> None:
    target, asked = NumpyTarget(), set()
    for document, vector in every_vector():
        try:
            assert wrong(target, document, vector["input"], vector["expected"]) == []
        except Unsupported:
            continue
        asked.add(document["operator"])
    assert asked == set(RUNNERS) - {"startup"}


FAULTS = {
    "read_record": "scales-unpermuted",
    "cp_gather_and_upconvert_nvfp4_kv_cache": "start-rounded-down",
    "cp_gather_and_upconvert_fp8_kv_cache": "fp8_ds_mla-start-rounded-down",
    "gather_and_maybe_dequant_cache": "numbers-alike-starts-ignored",
    "concat_and_cache_mla": "write-minus-one-wraps",
    "merge_attn_states": "merge-prefix-without-keys",
    "plan_mla_context_chunks": "cut-unaligned",
    "build_mla_chunked_context_metadata": "local-starts-of-the-whole-context",
    "determine_chunked_prefill_workspace_size": "sparse-workspace-rounded",
    "startup": "geometry-by-its-sum",
}
"""A fault of each operator."""


@pytest.mark.parametrize("operator", RUNNERS)
def test_a_faulty_implementation_is_seen_and_passes_what_it_gets_right(operator: str) -> None:
    target = find_defect(FAULTS[operator]).named_target()
    told = []
    for document, vector in every_vector():
        if document["operator"] == operator:
            with suppress(Unsupported):  # another layout's
                told.append(wrong(target, document, vector["input"], vector["expected"]))
    assert any(told) and not all(told)


def flipped(told: Any) -> Any:
    """What is told with one bit changed, or a number by one; an interval as one other number. None without anything."""
    if isinstance(told, dict) and set(told) == {"low", "high"}:
        other = flipped(told["high"])
        return None if other is None else {"low": other, "high": other}
    if isinstance(told, dict):
        changes = ((name, flipped(one)) for name, one in told.items() if name != "profiles")
        return next(({**told, name: one} for name, one in changes if one is not None), None)
    if isinstance(told, list):
        changes = ((place, flipped(one)) for place, one in enumerate(told))
        return next(([*told[:place], one, *told[place + 1 :]] for place, one in changes if one is not None), None)
    if isinstance(told, str):
        return f"{told[:-2]}{int(told[-2:], 16) ^ 4:02x}" if told else None
    return None if told is None else not told if isinstance(told, bool) else told + 1


def test_a_vector_with_one_bit_flipped_is_red() -> None:
    target, red = NumpyTarget(), 0
    for document, vector in every_vector():
        expected = vector["expected"]
        if document["operator"] not in {*RUNNERS} - {"startup"} or "refused" in expected:
            continue
        for name, one in expected.items():
            if (changed := flipped(one)) is not None:
                told = wrong(target, document, vector["input"], {**expected, name: changed})
                assert told, (document["operator"], vector["comment"], name)
                red += 1
    assert red > 180


@pytest.mark.parametrize("operator", ["cp_gather_and_upconvert_nvfp4_kv_cache", "concat_and_cache_mla"])
def test_a_call_that_is_to_be_refused_is_red_where_it_is_served_and_the_other_way_round(operator: str) -> None:
    of_it = [(one, vector) for one, vector in every_vector() if one["operator"] == operator]
    document, refused = next(pair for pair in of_it if "refused" in pair[1]["expected"])
    assert "names none of" in wrong(NumpyTarget(), document, refused["input"], {"refused": ["nobody"]})[0]
    document, served = next(pair for pair in of_it if "refused" not in pair[1]["expected"])
    assert wrong(NumpyTarget(), document, served["input"], {"refused": ["dst"]}) == ["was served; it is to be refused"]
