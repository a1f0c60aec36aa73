"""Check --require: conditions without which the run is red."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from packaging.requirements import InvalidRequirement, Requirement

_RANGE = re.compile(r"[<>=!~]")


def requirement(text: str) -> str:
    """Return an argument of --require unchanged. Raises ArgumentTypeError if it cannot be parsed."""
    if _RANGE.search(text):
        try:
            Requirement(text)
        except InvalidRequirement as error:
            raise ArgumentTypeError(
                f"--require is {text!r}; allowed are ranges such as 'vllm>=0.33,<0.34': {error}"
            ) from error
    return text


def unmet(wanted: str, offered: Iterable[str]) -> str:
    """Return why a requirement is not met, in one line, or "".

    `offered` has the offers of the targets that this machine can run: capabilities, and on a GPU `cuda` and sm_NNN.

    Returns:
        "" if the requirement is met.

    """
    if _RANGE.search(wanted):
        asked = Requirement(wanted)
        try:
            found = version(asked.name)
        except PackageNotFoundError:
            return f"--require {wanted}: {asked.name} is not installed"
        inside = asked.specifier.contains(found, prereleases=True)
        return "" if inside else f"--require {wanted}: {asked.name} {found} is installed"
    if wanted in set(offered):
        return ""
    return f"--require {wanted}: not there. Available: {', '.join(sorted(set(offered))) or 'nothing'}"
