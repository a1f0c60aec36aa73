"""--require: what has to be there, or else the run is red."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from packaging.requirements import InvalidRequirement, Requirement

_RANGE = re.compile(r"[<>=!~]")


def requirement(text: str) -> str:
    """An argument of --require as it stands, if it can be understood; ArgumentTypeError if not."""
    if _RANGE.search(text):
        try:
            Requirement(text)
        except InvalidRequirement as error:
            raise ArgumentTypeError(
                f"--require is {text!r}; allowed are ranges such as 'vllm>=0.33,<0.34': {error}"
            ) from error
    return text


def unmet(wanted: str, offered: Iterable[str]) -> str:
    """Why what is wanted is not there, in one line, or "".

    `offered` are what the targets that this machine can run offer: capabilities, and on a GPU `cuda` and sm_NNN.
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
