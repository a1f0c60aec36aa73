"""Count which classes of cases a campaign has tried, over declared domains, so that untried values appear."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance.reports.campaign_report import NO_CASE

Hit = tuple[str, str]
"""A class and one of its values."""

OTHER = "other"
"""The counter for values that a class does not declare. It limits the number of counters."""


@dataclass(frozen=True)
class Domain:
    """Describe one kind of case: `classes` has the values of each class by name, `hits` returns those of a case.

    A case may have several values of a class, or no value.
    """

    name: str
    classes: Mapping[str, tuple[str, ...]]
    hits: Callable[[Any], Iterable[Hit]]


@dataclass
class Coverage:
    """Count the cases with each value of each class of their domain. The memory does not grow with the cases.

    `domain_of` returns the name of a case's domain, "" for a case without a domain.
    """

    domains: Mapping[str, Domain]
    domain_of: Callable[[Any], str]
    counts: dict[str, Counter[Hit]] = field(default_factory=dict)
    cases: Counter[str] = field(default_factory=Counter)

    def see(self, case: Any) -> None:
        """Count a case. A case without a domain is ignored."""
        name = self.domain_of(case)
        domain = self.domains.get(name)
        if domain is None:
            return
        self.cases[name] += 1
        counts = self.counts.setdefault(name, Counter())
        for hit in set(domain.hits(case)):
            counts[hit if hit[1] in domain.classes[hit[0]] else (hit[0], OTHER)] += 1

    def told(self) -> dict[str, Any]:
        """Return the counters as JSON types, for a worker to send."""
        counts: dict[str, dict[str, dict[str, int]]] = {}
        for name, of_domain in self.counts.items():
            for (each, value), count in of_domain.items():
                counts.setdefault(name, {}).setdefault(each, {})[value] = count
        return {"cases": dict(self.cases), "counts": counts}

    def add(self, told: Mapping[str, Any]) -> None:
        """Add the counters that a worker has sent."""
        self.cases.update(told["cases"])
        for name, classes in told["counts"].items():
            counts = self.counts.setdefault(name, Counter())
            for each, values in classes.items():
                counts.update({(each, value): count for value, count in values.items()})

    def as_json(self) -> dict[str, dict[str, int]]:
        """Return the counts of all declared values by "domain: class", and of other values if there were any."""
        return {
            f"{name}: {each}": self._of(name, each, values)
            for name, domain in self.domains.items()
            if self.cases[name]
            for each, values in domain.classes.items()
        }

    def never(self) -> list[str]:
        """Return the values and the domains without a case."""
        return [
            *(name + NO_CASE for name in self.domains if not self.cases[name]),
            *(f"{each}: {value}" for each, values in self.as_json().items() for value in values if not values[value]),
        ]

    def _of(self, name: str, each: str, values: tuple[str, ...]) -> dict[str, int]:
        counts = self.counts[name]
        others = {OTHER: counts[each, OTHER]} if counts[each, OTHER] and OTHER not in values else {}
        return {value: counts[each, value] for value in values} | others


def pairs(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    """Return the values of a class that combines two classes: "one, other" for each pair."""
    others = tuple(second)
    return tuple(f"{one}, {other}" for one in first for other in others)
