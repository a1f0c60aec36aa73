"""Format a campaign for the terminal and for gate.md, and join the campaigns of shards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

MOST_LINES = 12
"""The most lines on untried values on a terminal."""

NO_CASE = ": no case"
"""The end of a line about a whole domain."""

ADDED = ("seconds", "rounds", "cases", "cases_per_second")


def campaign_line(campaign: Mapping[str, Any]) -> str:
    """Return how much was drawn, in one line."""
    peak = max(campaign["peak_rss_mib"].values(), default=0)
    drawn = f"{campaign['cases']:,} cases in {campaign['rounds']:,} rounds"
    return f"campaign: {drawn}, {campaign['cases_per_second']:,} a second, at most {peak:,} MiB a worker"


def campaign_lines(campaign: Mapping[str, Any]) -> list[str]:
    """Return the campaign for a terminal: how much was drawn, and the first untried values."""
    never = [f"  never tried: {what}" for what in _together(campaign["never"])]
    left = len(never) - MOST_LINES
    more = [f"  and {left} lines more, in gate.json and gate.md"] if left > 0 else []
    return [campaign_line(campaign), *never[:MOST_LINES], *more]


def campaign_in_markdown(campaign: Mapping[str, Any] | None) -> list[str]:
    """Return the campaign for gate.md: untried values and a table of all counters. Empty without a campaign."""
    if not campaign:
        return []
    lines = ["## Campaign", "", campaign_line(campaign), ""]
    lines += [f"- never tried: {what}" for what in _together(campaign["never"])]
    lines += ["", "<details><summary>What was tried, in cases</summary>", "", "| class | cases |", "|---|---|"]
    for each, values in campaign["coverage"].items():
        lines.append(f"| {each} | {'; '.join(f'{value}: {count:,}' for value, count in values.items())} |")
    return [*lines, "", "</details>", ""]


def joined(campaigns: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return several campaigns as one, or None for an empty sequence. Worker names get the number of their report."""
    if not campaigns:
        return None
    coverage: dict[str, Counter[str]] = {}
    for campaign in campaigns:
        for each, values in campaign["coverage"].items():
            coverage.setdefault(each, Counter()).update(values)
    empty = [[what for what in campaign["never"] if what.endswith(NO_CASE)] for campaign in campaigns]
    return {
        "minutes": max((campaign["minutes"] or 0 for campaign in campaigns), default=0) or None,
        **{name: round(sum(campaign[name] for campaign in campaigns), 1) for name in ADDED},
        "coverage": {each: dict(values) for each, values in coverage.items()},
        "never": [
            *(what for what in empty[0] if all(what in others for others in empty)),
            *(f"{each}: {value}" for each, values in coverage.items() for value in values if not values[value]),
        ],
        "peak_rss_mib": {
            f"{number} {worker}": peak
            for number, campaign in enumerate(campaigns, 1)
            for worker, peak in campaign["peak_rss_mib"].items()
        },
    }


def _together(never: Sequence[str]) -> list[str]:
    """Return the untried values of each class in one line, and the domains without a case in another."""
    grouped: dict[str, list[str]] = {}
    empty = [what.removesuffix(NO_CASE) for what in never if what.endswith(NO_CASE)]
    for what in never:
        each, _, value = what.rpartition(": ")
        if not what.endswith(NO_CASE):
            grouped.setdefault(each, []).append(value)
    lines = [f"{each}: {'; '.join(values)}" for each, values in grouped.items()]
    return lines + ([f"any case of {', '.join(empty)}"] if empty else [])
