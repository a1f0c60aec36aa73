"""What a fixture holds is told where a person looks for it, and nothing that it does not hold."""

import io
import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from conformance.cli import app
from conformance.replaying.asking import CannotAsk
from conformance.selfcheck.showing import ABOUT, GATHER, KINDS, gather, large, merge, page, plan, shown
from conformance.showing.anew import asked_again
from conformance.showing.paging import MOST_BOXES, boxes_of
from conformance.showing.shown import Shown
from conformance.showing.terminal import tell
from conformance.showing.view import Box
from conformance.targets.models import NumpyTarget
from fixtures.store import Fixture, load, save
from fixtures.stored_rows import MOST_ROWS

TOLD = {
    "gather": (
        "PAGE-1 GATHER-3  differs  fault:last-row-not-written",
        "gather, nvfp4_ds_mla",
        "T is 95, of 4 requests",
        "row 94 = request 3 token 124 = block 7 slot 12 -> physical block",
        "element 0 = latent block 0, byte 0 low nibble",
        "(the poison: never written)",
        "576 of 54,720 elements in 1 of 95 rows differ",
        "of them 512 latent, 64 RoPE",
        "explained exactly by: the last row left as it was (fault last-row-not-written), then and today",
        "--target fault:last-row-not-written",
    ),
    "write": (
        "concat_and_cache_mla, nvfp4_ds_mla",
        "40, of which 3 have no slot",
        "token 34 = slot 1 = block 0 record 1",
        "byte 12 = latent element 25 (0xC50C -2240): code 14 (-4), got 15 (-6); expected 0xEE, got 0xFE",
        "367 of 22,528 elements in 37 of 64 records differ",
        "explained exactly by: ties of e2m1 rounded away from zero (fault write-e2m1-ties-away), then and today",
    ),
    "merge": (
        "24 tokens, 6 heads, 64 elements of bf16 for each",
        "token 0 head 1 element 0: p 0.735629022, s -1.01328409, P 0.199219, S -0.151367",
        "output: expected 0.147460938 (bf16)      got 0x3DAA 0.0830078125",
        "output: 7,581 of 9,216 elements in 120 of 144 tokens and heads differ",
        "when it was stored, explained exactly by: all heads of a token are merged by the first one's LSEs",
        "today, known faults are not looked for: not all that was observed is stored",
    ),
    "plan": (
        "plan_mla_context_chunks",
        "100, 37, 0, 250",
        "PLAN-3: piece 1 of chunk 1, of request 1, is cut after 28 tokens",
        "is_continuation True",
        "(fault cut-unaligned)",
    ),
    "none": ("PAGE-1 GATHER-3  differs", "the file holds no case", "a launch too many"),
}


def terminal(fixture: Fixture, width: int = 250) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    tell(Shown(fixture, Path("case.safetensors")), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def words(html: str) -> str:
    return unescape(re.sub(r"<[^>]*>", " ", html))


def told_by_itself(kind: str) -> Fixture:
    """Without the message of a kind whose arrays say as much."""
    fixture = KINDS[kind]()
    about = {name: value for name, value in fixture.about.items() if name != "message" or not fixture.observed}
    return replace(fixture, about=about)


@pytest.mark.parametrize("kind", KINDS)
def test_the_terminal_tells_what_matters_of_each_kind(kind: str) -> None:
    said = terminal(told_by_itself(kind))
    assert [line for line in TOLD[kind] if line not in said] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_tells_what_the_terminal_tells(kind: str) -> None:
    told = re.sub(r"\s+", " ", words(page(told_by_itself(kind))))
    lines = [re.sub(r"\s+", " ", line) for line in TOLD[kind]]
    assert [line for line in lines[1:] if line.removeprefix("output: ") not in told] == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_terminal_of_120_columns_has_room_for_all(kind: str) -> None:
    assert len(terminal(KINDS[kind](), 120).splitlines()) <= 40


def test_of_rows_that_were_left_out_nothing_is_claimed() -> None:
    fixture = large()
    assert len(fixture.observed["rows"]) == MOST_ROWS
    said = terminal(fixture)
    assert re.search(r"at least [\d,]+ of 2,880,000 elements in 256 of 5,000 rows differ", said)
    assert "the file holds the first 256 rows that differ of 5,000; of those behind, nothing is known" in said
    assert "today, known faults are not looked for: not all that was observed is stored" in said
    html = page(fixture)
    assert "4,744 rows of which nothing is known: left out" in words(html)
    assert '<rect x="256" y="0" width="4744" height="1" class="unknown">' in html
    assert len(html.encode()) < 1 << 20


def test_arrays_that_do_not_fit_the_case_are_not_shown() -> None:
    fixture = gather()
    kept = dict(fixture.observed)
    for name, other in (
        ("rows", kept["rows"][:, :5]),
        ("rows", kept["rows"].astype(np.float32)),
        ("rows.at", kept["rows.at"] + 5_000),
        ("rows.at", kept["rows.at"] - 1_000),
        ("rows.at", kept["rows.at"].astype(np.float64)),
        ("rows.at", np.zeros((0,), np.int64)),
        ("rows.sha256", np.zeros((3, 3), np.float16)),
    ):
        changed = [{**of, name: other} for of in (fixture.expected, fixture.observed)]
        odd = replace(fixture, expected=changed[0], observed=changed[1])
        assert "last-row-not-written" in terminal(odd) and "today, explained" not in terminal(odd)
        assert "PAGE-1" in page(odd)


def test_a_changed_golden_model_is_said() -> None:
    fixture = gather()
    expected = {**fixture.expected, "rows.sha256": np.zeros(32, np.uint8)}
    assert "expects something else today" in terminal(replace(fixture, expected=expected))


def test_observed_bits_that_the_file_does_not_tell_are_not_diagnosed() -> None:
    fixture = gather()
    observed = {**fixture.observed, "rows.sha256": np.zeros(32, np.uint8)}
    assert "then and today" not in terminal(replace(fixture, observed=observed))


HOSTILE = "</style><script>alert(1)</script><img src=x onerror='a' \"b\" & \x1b[2J\x1b]0;t\x07 \u202e\ud800\r\n[bold]x"


def test_nothing_from_a_file_is_markup_or_moves_the_cursor() -> None:
    names = ("target", "test", "message", "verdict", "clauses", "receipt", "layout", "operator", "time", "nan")
    about = dict.fromkeys(names, HOSTILE) | {"explained_by": [HOSTILE] * 90, HOSTILE: {HOSTILE: [HOSTILE, [[HOSTILE]]]}}
    for fixture in (replace(gather(), case=replace(GATHER, origin=HOSTILE), about=about), Fixture(None, about=about)):
        html = page(fixture)
        assert not re.search(r"<script|<img|onerror=['\"]a['\"] ?>|</style>.*</style>", html, re.DOTALL)
        said = terminal(fixture)
        assert "[bold]x" in said and r"\x1b[2J" in said
        for text in (html, said):
            assert {each for each in text if not each.isprintable()} <= {"\n"}
            text.encode()


@pytest.mark.parametrize(
    "about",
    [
        {"clauses": 7, "explained_by": "x", "message": {"a": 1}, "target": ["t"], "seed": None, "verdict": [1]},
        {
            "clauses": [[["a"]], {"b": []}],
            "explained_by": [1, None, ["x"]],
            "message": 3.5,
            "receipt": [[[[[[[[1]]]]]]]],
        },
        {f"key {number}": "x" * 9_000 for number in range(300)} | {"message": "line\n" * 9_000 + "x" * 99_999},
    ],
    ids=["of other types", "nested", "long"],
)
def test_whatever_stands_in_about_is_shown_in_bounds(about: dict[str, object]) -> None:
    fixture = replace(gather(), about=about)
    assert len(terminal(fixture, 120).splitlines()) < 70
    assert len(page(fixture).encode()) < 1 << 18


def test_a_bad_file_is_one_line_and_125(tmp_path: Path) -> None:
    save(gather(), tmp_path / "good")
    content = (tmp_path / "good").read_bytes()
    for number, bad in enumerate((b"", b"{}", content[:-1], content.replace(b"schema", b"shcema"))):
        (path := tmp_path / f"bad{number}").write_bytes(bad)
        done = CliRunner().invoke(app, ["show", str(path)])
        assert done.exit_code == 125 and done.stdout == "" and len(done.stderr.splitlines()) == 1, done.output
        assert path.name in done.stderr


def test_a_page_that_cannot_be_written_is_a_usage_error(tmp_path: Path) -> None:
    save(plan(), tmp_path / "case")
    before = (tmp_path / "case").read_bytes()
    for out in (tmp_path / "none" / "page.html", tmp_path / "case", tmp_path):
        done = CliRunner().invoke(app, ["show", str(tmp_path / "case"), "--html", str(out)])
        assert done.exit_code == 2 and "--html" in done.stderr, done.output
    assert (tmp_path / "case").read_bytes() == before


def test_the_command_writes_the_page_of_a_file_of_any_kind(tmp_path: Path) -> None:
    done = shown(plan(), tmp_path, "--html", str(tmp_path / "page.html"))
    assert done.returncode == 0 and "wrote" in done.stdout, done.stderr
    assert (tmp_path / "page.html").read_text() == page(load(tmp_path / "case.safetensors")).replace(
        "replay case.safetensors", f"replay {tmp_path}/case.safetensors"
    )


def test_a_target_is_asked_what_it_does_today() -> None:
    right = asked_again(gather(), NumpyTarget())
    assert terminal(right).startswith("PAGE-1 GATHER-3  conforms  numpy\n") and not right.observed
    assert not re.search("differ|fault", terminal(right)) and "Diagnosis" not in page(right)
    with pytest.raises(CannotAsk, match="does not ask of its case"):
        asked_again(Fixture(None, about=ABOUT), NumpyTarget())


def test_a_block_is_shaded_up_to_the_start_and_empty_after_the_end() -> None:
    request = Shown(gather(), Path()).view.lanes[-1]
    assert request.title == "request 3: rows 70 to 94, tokens 100 to 124"
    before, first, last = request.boxes
    assert before == "6 blocks before the start" and isinstance(first, Box) and isinstance(last, Box)
    assert [first.number, last.number] == GATHER.block_table[3, 6:8].tolist()
    assert first.spans == (("before", 0, 4), ("read", 4, 16))
    assert last.spans == (("read", 0, 13), ("wrong", 12, 13))


def test_of_many_blocks_those_that_differ_and_the_ends_are_shown() -> None:
    boxes = boxes_of(40, 900, 8, np.array([250, 500]), 600, range(1000, 2000))
    shown = [box if isinstance(box, str) else box.number for box in boxes]
    assert shown[:2] == ["5 blocks before the start", 1005] and shown[-1] == 1112 and {1031, 1062} <= set(shown)
    assert sum(isinstance(box, Box) for box in boxes) <= MOST_BOXES
    left_out = sum(int(box.split()[0]) for box in boxes if isinstance(box, str))
    assert left_out + sum(isinstance(box, Box) for box in boxes) == 113
    assert isinstance(boxes[-1], Box) and boxes[-1].spans == (("unknown", 0, 4),)


def test_each_kind_of_map_marks_exactly_what_differs() -> None:
    view = Shown(gather(), Path()).view
    assert [(row.number, len(row.wrong)) for row in view.maps[0].rows] == [(93, 0), (94, 576)]
    heads, elements = Shown(KINDS["merge"](), Path()).view.maps
    assert all(row.wrong.tolist() == [1, 2, 3, 4, 5] for row in heads.rows) and len(heads.rows) == merge().shape[0]
    assert elements.rows[0].wrong.size == 0 and elements.rows[1].wrong.size == 63
