"""A fixture as one page of HTML that needs nothing else: no script, no font, no network."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from conformance.showing.facts import facts_of, operator_in_words
from conformance.showing.lanes import lanes_of
from conformance.showing.maps import map_of
from conformance.showing.markup import Markup, element, lines
from conformance.showing.shown import Shown
from conformance.showing.style import STYLE
from conformance.showing.view import Fact, Table

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
LONG = 1500
"""Characters of a fact."""


def page_of(shown: Shown) -> str:
    """The whole document, below 1 MiB."""
    view = shown.view
    maps = [map_of(drawn, number) for number, drawn in enumerate(view.maps)]
    parts = [
        _header(shown),
        _section("Where it differs", *_where(shown)),
        _section("Diagnosis", *_diagnosis(shown)),
        _section("What differs", *maps),
        _section(view.lanes_title, *([lanes_of(view.lanes, view.lanes_left_out)] if view.lanes else [])),
        _section("The first values that differ", *([_table(view.values)] if view.values else [])),
        _section("The call", *([_facts(view.geometry)] if view.geometry else [])),
        _section("The run", _facts(facts_of(shown.fixture, LONG))),
        _section("Message", *([element("pre", lines(shown.message))] if shown.message else [])),
        _section("See it again", element("pre", shown.replay, class_="command")),
    ]
    title = " ".join(part for part in shown.heading if part)
    head = element(
        "head",
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    document = element("html", head, element("body", element("main", *parts)), lang="en")
    return f"<!doctype html>\n{document}\n"


def _section(title: str, *content: str) -> Markup:
    return element("section", element("h2", title), *content) if content else Markup()


def _header(shown: Shown) -> Markup:
    clauses, verdict = shown.heading
    known = {"differs", "crashed", "conforms"}
    pill = element("span", verdict, class_=f"verdict {verdict}" if verdict in known else "verdict")
    target = element("p", "target ", element("b", shown.target), class_="target") if shown.target else Markup()
    amount = element("p", shown.view.amount[0], class_="amount") if shown.view.places else Markup()
    return element(
        "header",
        element("p", operator_in_words(shown.fixture), class_="over"),
        element("h1", clauses, *([" ", pill] if verdict else [])),
        target,
        amount,
    )


def _where(shown: Shown) -> list[Markup]:
    view = shown.view
    places = [element("pre", lines(place), class_="place") for place in view.places[:1]]
    counts = [element("p", line) for line in view.amount[len(view.places) > 0 :]]
    return [*places, *counts, *(element("p", line, class_="remark") for line in view.remarks)]


def _diagnosis(shown: Shown) -> list[Markup]:
    lines = [element("p", line, class_="found" if "exactly" in line else "said") for line in shown.diagnosis]
    nothing = element("p", "no known fault was found when this was stored, and none was looked for today")
    return lines or ([] if shown.heading[1] == "conforms" else [nothing])


def _table(table: Table) -> Markup:
    """Rows alike in their first cell stand under a line that tells it once."""
    head = element("tr", *(element("th", name) for name in table.head[1:]))
    bodies = [
        element("tbody", _heading(first, len(table.head)), *(_row(row[1:]) for row in rows))
        for first, rows in groupby(table.rows, key=lambda row: row[0])
    ]
    return element("div", element("table", element("thead", head), *bodies), class_="scroll")


def _heading(text: str, columns: int) -> Markup:
    return element("tr", element("th", text, colspan=columns - 1), class_="group")


def _row(cells: Sequence[str]) -> Markup:
    got = [element("td", cells[-1], class_="got")] if len(cells) > 2 else [element("td", each) for each in cells[-1:]]
    return element("tr", *(element("td", cell) for cell in cells[:-1]), *got)


def _facts(facts: Sequence[Fact]) -> Markup:
    pairs = [element("div", element("dt", name), element("dd", value)) for name, value in facts]
    return element("dl", *pairs)
