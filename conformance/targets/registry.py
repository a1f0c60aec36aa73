"""Find targets by name: built-in ones, installed ones, and `package.module:Class`."""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import entry_points
from unittest.mock import patch

from conformance.raised import located
from conformance.targets.base import Target
from conformance.targets.kernels import CudaTarget, HostTarget, why_no_device
from conformance.targets.models import NumpyTarget, TorchTarget
from conformance.targets.taken import Taken, Unusable
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


WITH_A_PARAMETER: dict[str, Callable[[str], Target]] = {
    "vllm-ops": VllmOpsTarget,
    **{
        f"vllm-ops-{profile.name}": partial(VllmOpsTarget, profile=profile)
        for profile in PROFILES.values()
        if profile != RELEASED
    },
}
"""The targets that need a parameter. conformance.faults.scheme adds `fault`."""


class UnknownTarget(ValueError):
    """Report that no target has a name, or that the target cannot be used."""


def installed() -> dict[str, Callable[..., Target]]:
    """Return the targets that other distributions declare in the entry-point group nvfp4_mla_conformance.targets."""
    return {
        entry.name: lambda entry=entry: _foreign(entry.load, entry.name) for entry in entry_points(group=ENTRY_POINTS)
    }


def resolve(name: str) -> str:
    """Return the name that `auto` stands for: cuda if a device is visible, else host. Other names are unchanged."""
    if name != "auto":
        return name
    return "host" if why_no_device() else "cuda"


def find(name: str) -> Target:
    """Return the target of a name. Raises UnknownTarget, with the names that exist, if there is no usable target."""
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
    return _foreign(lambda: getattr(importlib.import_module(module), attribute), name)


def _foreign(load: Callable[[], Callable[[], object]], name: str) -> Target:
    """Load a foreign target. Raises UnknownTarget if its module raises, exits, or is no usable target."""

    def refuse(status: int) -> None:
        raise SystemExit(f"it would end this process with status {status}")

    here = os.getcwd()
    try:
        with patch("os._exit", refuse), _speaking():  # by which a run would end without a word
            target = load()()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit and pytest's own are no way out
        raise UnknownTarget(f"--target is {name!r}, but {located(error)}") from error
    finally:
        os.chdir(here)  # paths on the command line and of tests are relative to it
    if not isinstance(target, Target):
        raise UnknownTarget(f"--target is {name!r}, which is no conformance.targets.base.Target")
    try:
        return Taken(target)
    except Unusable as reason:
        raise UnknownTarget(f"--target is {name!r}, but {reason}") from reason


@contextmanager
def _speaking() -> Iterator[None]:
    """Enable faulthandler, so that a process that dies prints where."""
    before = faulthandler.is_enabled()
    try:
        faulthandler.enable(sys.__stderr__ or 2)
    except (OSError, ValueError):  # stderr is closed
        yield
        return
    try:
        yield
    finally:
        if not before:
            faulthandler.disable()
