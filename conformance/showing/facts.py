"""What a fixture says about itself: which call, in whose name, on what, and when."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.showing.text import in_words, plain
from conformance.showing.view import Fact
from fixtures.store import Fixture

NAMES = ("clauses", "test", "gate_profile", "seed", "target", "profile", "receipt", "versions", "time")
"""What is told first, in this order."""
LABELS = {"gate_profile": "profile", "profile": "writes as", "nan": "NaN"}
"""What some are called."""
APART = ("message", "explained_by", "operator", "layout", "verdict")
"""What is told elsewhere."""
OPERATORS = {
    "gather": "gather",
    "write": "concat_and_cache_mla",
    "merge": "merge_attn_states",
    "context": "context attention over chunks",
    "plan": "plan_mla_context_chunks",
    "metadata": "build_mla_chunked_context_metadata",
    "workspace": "determine_chunked_prefill_workspace_size",
}
MOST = 16
VERDICTS = ("differs", "crashed", "conforms", "unsupported", "not judged")


def facts_of(fixture: Fixture, most: int, without: Sequence[str] = ()) -> list[Fact]:
    """Names and values, each of at most so many characters; the first MOST of what is not known by name."""
    about = fixture.about
    others = [name for name in about if name not in (*NAMES, *APART)][:MOST]
    named = [name for name in (*NAMES, *others) if name in about and name not in without]
    told = [(plain(LABELS.get(name, name), 60), in_words(about[name], most)) for name in named]
    known = [("operator", operator_in_words(fixture)), ("malformed", _change(fixture))]
    return [(name, words) for name, words in (*known, *told) if words]


def _change(fixture: Fixture) -> str:
    """Return what makes a call malformed, "" for a legal one."""
    kind, _, change = str(fixture.about.get("question", "")).partition(" ")
    return f"{plain(change, 80)}; all else as the case says" if kind == "malformed" else ""


def operator_in_words(fixture: Fixture) -> str:
    """Which operator, and over which records."""
    given = fixture.about.get("operator", fixture.operator)
    layout = fixture.about.get("layout", layout_of(fixture))
    name = OPERATORS.get(fixture.operator, in_words(given, 80))
    return f"{name}, {in_words(layout, 80)}" if layout else name


def layout_of(fixture: Fixture) -> str:
    """The name of the records, for a kind of case that has some."""
    case = fixture.case
    return str(case.layout.name if fixture.operator == "gather" else getattr(case, "kv_cache_dtype", ""))


def heading_of(fixture: Fixture) -> tuple[str, str]:
    """Clauses and verdict."""
    about = fixture.about
    clauses = about.get("clauses", "")
    first = str(about.get("message", "")).split("\n")[0]
    said = next((word for word in VERDICTS if f"  {word}  " in f"{first}  "), "")
    named = " ".join(map(str, clauses)) if isinstance(clauses, list) else clauses
    return plain(named, 120) or operator_in_words(fixture), in_words(about.get("verdict", said), 40)
