"""Texts without what depends on the machine, the day and the folder."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

HIDDEN = (
    (re.escape(str(Path(__file__).resolve().parents[1])) + r"/", ""),
    (r"/tmp/[\w./-]*?(?=/?\s|$)", "TMP"),
    (r"(?:[\w.-]+/)+(test_\w+\.py)(?=::)", r"\1"),  # folders of tests
    (r"(\w\.py):\d+", r"\1:N"),
    (r"\b(g\+\+|clang\+\+)( \([^)]*\))? \d[\w.-]*( \d[\w.]*)?", r"\1"),
    (r"\b(NumPy|PyTorch|torch|Python|CuPy) \d[\w.+]*", r"\1"),
    (r"\bin \d+(\.\d+)?s\b|\b\d+:\d\d(:\d\d)? so far|\bin \d+:\d\d(:\d\d)?\b", "SECONDS"),
)
"""What depends on the machine, the day and the folder, and what stands for it."""


def plain(text: str) -> str:
    """A text without what depends on the machine, the day and the folder, and without blanks at the ends of lines."""
    for pattern, instead in HIDDEN:
        text = re.sub(pattern, instead, text)
    return "\n".join(line.rstrip() for line in text.splitlines())


def reduced(test: str, target: str) -> str:
    """A node id without folders and without the target's name."""
    return test.rpartition("/")[2].replace(f"[{target}", "[{target}", 1)


def in_a_line(values: dict[str, Any]) -> str:
    """A flat dictionary in words."""
    return ", ".join(f"{name} {value}" for name, value in values.items())


def in_short(tests: Iterable[ElementTree.Element]) -> dict[str, str]:
    """By function how many tests it has, how they ended, and a hash of their parameters."""
    ends: dict[str, Counter[str]] = {}
    parameters: dict[str, list[str]] = {}
    for test in tests:
        function, _, parameter = test.attrib["name"].partition("[")
        name = f"{test.attrib['classname'].rpartition('.')[2]}.py::{function}"
        ends.setdefault(name, Counter())[
            next((child.tag for child in test if child.tag != "properties"), "passed")
        ] += 1
        parameters.setdefault(name, []).append(parameter)
    hashes = {
        name: hashlib.sha256("\n".join(sorted(found)).encode()).hexdigest()[:12] for name, found in parameters.items()
    }
    return {name: f"{in_a_line(dict(sorted(counts.items())))}, {hashes[name]}" for name, counts in ends.items()}
