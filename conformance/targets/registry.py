"""Targets by name: the built-in ones, installed ones, and `package.module:Class`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from unittest.mock import patch

from conformance.targets.base import Target
from conformance.targets.kernels import CudaTarget, HostTarget, why_no_device
from conformance.targets.models import NumpyTarget, TorchTarget
from conformance.targets.vllm_release.ops import VllmOpsTarget
from conformance.targets.vllm_release.target import VllmTarget
from reference.profiles import DEFAULT as RELEASED
from reference.profiles import PROFILES

ENTRY_POINTS = "nvfp4_mla_conformance.targets"

# A name may be followed by a colon and a parameter: torch:cuda, host:DIR.
BUILT_IN: dict[str, Callable[..., Target]] = {
    "numpy": NumpyTarget,
    "torch": TorchTarget,
    "host": HostTarget,
    "cuda": CudaTarget,
    "host-plain": partial(HostTarget, kernel="plain"),
    "cuda-plain": partial(CudaTarget, kernel="plain"),
    "vllm": VllmTarget,
    **{
        f"{place}-{profile.name}": partial(kind, profile=profile)
        for place, kind in (("host", HostTarget), ("cuda", CudaTarget))
        for profile in PROFILES.values()
        if profile != RELEASED
    },
}


def _faulty(name: str) -> Target:
    from conformance.faults.defects import find_defect  # which imports most of the suite

    return find_defect(name).named_target()


WITH_A_PARAMETER: dict[str, Callable[[str], Target]] = {
    "fault": _faulty,
    "vllm-ops": VllmOpsTarget,
    **{
        f"vllm-ops-{profile.name}": partial(VllmOpsTarget, profile=profile)
        for profile in PROFILES.values()
        if profile != RELEASED
    },
}
"""Those that are nothing without a parameter."""


class UnknownTarget(ValueError):
    """No target has that name."""


def installed() -> dict[str, Callable[..., Target]]:
    """The targets that other distributions declare in the entry-point group nvfp4_mla_conformance.targets."""
    return {entry.name: lambda entry=entry: entry.load()() for entry in entry_points(group=ENTRY_POINTS)}


def resolve(name: str) -> str:
    """`auto` -> cuda if a device is visible, else host; another name is itself."""
    if name != "auto":
        return name
    return "host" if why_no_device() else "cuda"


def find(name: str) -> Target:
    """The target of a name; UnknownTarget says which names there are."""
    name = resolve(name)
    known, colon, parameter = name.partition(":")
    if known in WITH_A_PARAMETER:
        return _with_parameter(known, parameter)
    if known in BUILT_IN and bool(colon) == bool(parameter):
        try:
            return BUILT_IN[known](parameter) if parameter else BUILT_IN[known]()
        except (TypeError, FileNotFoundError) as error:
            raise UnknownTarget(f"--target is {name!r}, but {error}") from error
    if name in installed():
        return installed()[name]()
    if parameter:
        return _imported(known, parameter, name)
    names = ", ".join(["auto", *BUILT_IN, *(f"{known}:PATH" for known in WITH_A_PARAMETER), *installed()])
    raise UnknownTarget(f"--target is {name!r}; allowed are {names}, or package.module:Class")


def _with_parameter(known: str, parameter: str) -> Target:
    if not parameter:
        raise UnknownTarget(f"--target is {known!r}; allowed is {known}:PATH")
    try:
        return WITH_A_PARAMETER[known](parameter)
    except (TypeError, KeyError, OSError) as error:
        said = error.args[0] if isinstance(error, KeyError) else error
        raise UnknownTarget(f"--target is '{known}:{parameter}', but {said}") from error


def _imported(module: str, attribute: str, name: str) -> Target:
    def refuse(status: int) -> None:
        raise SystemExit(f"it would end this process with status {status}")

    try:
        with patch("os._exit", refuse):  # by which a run would end without a word
            target = getattr(importlib.import_module(module), attribute)()
    except (Exception, SystemExit) as error:  # whatever somebody else's module does when it is imported
        raise UnknownTarget(f"--target is {name!r}, but {type(error).__name__}: {error}") from error
    if not isinstance(target, Target):
        raise UnknownTarget(f"--target is {name!r}, which is no conformance.targets.base.Target")
    return checked(target, name)


def checked(target: Target, name: str) -> Target:
    """The target, if what it says of itself can be used; else UnknownTarget."""
    wrong = [
        what
        for what, right in (
            ("its name is no text", isinstance(getattr(target, "name", None), str)),
            ("its capabilities are no set", isinstance(target.capabilities, frozenset | set)),
            ("its nan is neither 'canonical' nor 'any'", target.nan in ("canonical", "any")),
            ("it does not define describe()", type(target).describe is not Target.describe),
        )
        if not right
    ]
    if wrong:
        raise UnknownTarget(f"--target is {name!r}, but {' and '.join(wrong)}")
    return target
