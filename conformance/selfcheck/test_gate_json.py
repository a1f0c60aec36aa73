"""gate.json: every kind of report is as its schema says, and a file that is none is refused in words."""

import copy
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from typer.testing import CliRunner

from conformance.cli import app
from conformance.reports import reading
from conformance.reports.campaign import Meter, campaign_as_json
from conformance.reports.gate import Gate
from conformance.reports.joining import join
from conformance.reports.reading import DEEPEST, NoReport, read
from conformance.reports.report import as_json, as_markdown, write_report
from conformance.reports.shards import Part
from conformance.reports.verdicts import Outcome
from conformance.selfcheck.shard_reports import OUTCOMES, WAIVERS, outcome, report, shards_of
from conformance.verdict import CRASHED, DIFFERS, NOT_JUDGED, UNSUPPORTED

SCHEMA = json.loads(reading.SCHEMA_FILE.read_text())
VALIDATOR = Draft202012Validator(SCHEMA, format_checker=FormatChecker())

RED = [outcome(place, verdict=verdict) for place, verdict in enumerate((DIFFERS, CRASHED, NOT_JUDGED, UNSUPPORTED))]
CAMPAIGN = campaign_as_json(0.5, [Meter(3, 2, 1.25).told("gw0", 400)])


def joined(reports: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return join([Part(Path(str(place)), told) for place, told in enumerate(reports)], **more)


KINDS = {
    "before the run": as_json(Gate(0, "quick", ("numpy",))),
    "green": report(OUTCOMES),
    "red": report(
        [*OUTCOMES, *RED, Outcome("a test", "numpy", (), CRASHED, message="killed", fixture="f")],
        exit_status=1,
        waivers=WAIVERS,
    ),
    "interrupted": report(OUTCOMES, exit_status=2),
    "on a GPU": report(OUTCOMES, device="NVIDIA B200, sm_100, 0", required=("sm_100",), unmet=("--require sm_100",)),
    "of a campaign": report(OUTCOMES, campaign=CAMPAIGN),
    "a part": report(OUTCOMES, partial_ok=True),
    "a shard": shards_of(OUTCOMES, (1, 1, 2, 2), 2)[1],
    "joined": joined(shards_of(OUTCOMES, (1, 1, 2, 2), 2, campaign=CAMPAIGN), required=["cuda"]),
    "joined of nothing": joined([], unusable=["a: no JSON"]),
}


def as_stored(told: dict[str, Any]) -> dict[str, Any]:
    return dict(json.loads(json.dumps(told)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_report_is_as_the_schema_says_and_is_read_back(kind: str, tmp_path: Path) -> None:
    told = as_stored(KINDS[kind])
    VALIDATOR.validate(told)
    write_report(KINDS[kind], tmp_path)
    assert read(tmp_path / "gate.json") == told
    assert as_markdown(told).startswith(f"# Gate: {told['verdict']}")


def parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    for one in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts_of(one)


def test_the_schema_describes_each_property_and_allows_no_other() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    with_properties = [part for part in parts_of(SCHEMA) if "required" in part and "properties" in part]
    assert len(with_properties) == 10
    for part in with_properties:
        described = {**part["properties"]}
        assert set(part["required"]) == set(described) and part.get("additionalProperties") is False
        assert all(isinstance(one, dict) and len(one.get("description", "")) > 10 for one in described.values())


def changed(told: Any, where: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value there, or without it for ..., which adds an unknown member for a dict."""
    copied = copy.deepcopy(told)
    held = copied
    for place in where[:-1]:
        held = held[place]
    if value is ...:
        del held[where[-1]]
    else:
        held[where[-1]] = value
    return copied


GREEN = as_stored(KINDS["green"])


def deep(levels: int) -> str:
    receipt = "".join(['{"in":'] * levels + ["1"] + ["}"] * levels)
    return json.dumps(changed(GREEN, ("targets", 0, "receipt"), "here")).replace('"here"', receipt)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "found no JSON: Expecting value"),
        (json.dumps(GREEN)[:-200], "found no JSON: "),
        (json.dumps(GREEN) + "{}", "found no JSON: Extra data"),
        (json.dumps(GREEN).encode()[:-1] + b"\xff}", "found no JSON: "),
        ("\0" * 64, "found no JSON: "),
        ("[" * 100_000, "found no JSON: "),
        ('{"schema": ' + "1" * 10_000 + "}", "found no JSON: "),
        (json.dumps({**GREEN, "seconds": float("nan")}), "found no JSON: NaN is no number"),
        (json.dumps({**GREEN, "repeat": "\ud800"}), "found no JSON: "),
        (
            json.dumps({**GREEN, "seconds": 0.5}).replace("0.5", "1e999"),
            "found no JSON: 1e999 is no finite number",
        ),
        (deep(DEEPEST), f"found more than {DEEPEST} levels of lists and objects; allowed are no more"),
        ("[]", "report: [] is not of type 'object'"),
        ("{}", "report: 'schema' is a required property"),
        (json.dumps({**GREEN, "schema": 2}), "report.schema: 2 is not one of [1]"),
        (json.dumps({**GREEN, "new": 1}), "report: Additional properties are not allowed ('new' was unexpected)"),
        (json.dumps({**GREEN, "verdict": "green"}), "report.verdict: 'green' is not one of ['conforms', 'differs'"),
        (json.dumps({**GREEN, "shard": {"index": 0, "of": 2}}), "report.shard.index: 0 is less than the minimum of 1"),
        (
            json.dumps({**GREEN, "shard": {"index": 1, "of": 10**9}}),
            "report.shard.of: 1000000000 is greater than the maximum of 10000",
        ),
        (
            json.dumps({**GREEN, "targets": [{**GREEN["targets"][0], "name": ""}]}),
            "report.targets[0].name: '' should be non-empty",
        ),
        (
            json.dumps({**GREEN, "waivers": [{**GREEN["waivers"][0], "expires": "2027-02-30"}]}),
            "report.waivers[0].expires: '2027-02-30' is not a 'date'",
        ),
    ],
)
def test_a_file_that_is_no_report_is_refused_in_words(text: str | bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "gate.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(NoReport) as refused:
        read(path)
    assert says in refused.value.lines[0] and all(line.startswith(f"{path}: ") for line in refused.value.lines)
    done = CliRunner().invoke(app, ["merge", str(tmp_path)])
    assert done.exit_code == 6 and done.output.startswith("gate: not judged (of 0 reports)\nnot green: ")


def test_a_receipt_as_deep_as_is_allowed_is_joined_and_written(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text(deep(DEEPEST - 4))
    done = CliRunner().invoke(app, ["merge", str(tmp_path), "--report-dir", str(tmp_path / "joined")])
    assert done.exit_code == 0, done.output
    assert read(tmp_path / "joined/gate.json") == read(tmp_path / "gate.json")


@settings(deadline=None)
@given(st.integers(0, len(json.dumps(GREEN)) - 1), st.binary(max_size=3))
def test_a_file_that_is_cut_or_overwritten_anywhere_never_ends_in_a_traceback(place: int, written: bytes) -> None:
    whole = json.dumps(GREEN).encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gate.json"
        for held, codes in ((whole[:place], [6]), (whole[:place] + written + whole[place + len(written) :], [0, 1, 6])):
            path.write_bytes(held)
            done = CliRunner().invoke(app, ["merge", folder])
            assert done.exit_code in codes and isinstance(done.exception, SystemExit | None), done.output


def test_of_many_problems_the_first_are_said(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text(json.dumps({**GREEN, "reasons": [1] * 9}))
    with pytest.raises(NoReport) as refused:
        read(tmp_path / "gate.json")
    assert len(refused.value.lines) == 4 and refused.value.lines[3].endswith(": and 6 more of the kind")


@pytest.mark.parametrize("name", ["not there", "a folder"])
def test_a_path_without_a_report_is_red_in_words(name: str, tmp_path: Path) -> None:
    (tmp_path / "a folder").mkdir()
    done = CliRunner().invoke(app, ["merge", str(tmp_path / name)])
    assert done.exit_code == 6
    assert "No such file or directory; allowed are a gate.json and a folder that holds one" in done.output
