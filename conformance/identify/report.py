"""What `python -m conformance identify` says."""

from __future__ import annotations

from rich.console import Console

from conformance.identify.probe import Identity, identify
from conformance.identify.traits import of_profile
from conformance.judge import Crashed, NotJudged, Unsupported
from conformance.targets.base import WRITE_NVFP4, Target

IDENTIFIED, CONTRADICTED, CANNOT_BE_JUDGED = 0, 1, 125


def report(target: Target, console: Console) -> int:
    """Identify a target's writer and print the answer; the exit code."""
    reason = target.unavailable()
    if reason is None and WRITE_NVFP4 not in target.capabilities:
        reason = f"it lacks {WRITE_NVFP4}"
    if reason is not None:
        console.print(f"target {target.name}: not judged: {reason}")
        return CANNOT_BE_JUDGED
    try:
        found = identify(target)
    except (NotJudged, Unsupported) as error:
        console.print(f"target {target.name}: not judged: {error}")
        return CANNOT_BE_JUDGED
    except Crashed as error:
        console.print(str(error), markup=False)
        return CONTRADICTED
    for line in lines(target, found):
        console.print(line, markup=False)
    return IDENTIFIED if found.exact else CONTRADICTED


def lines(target: Target, found: Identity) -> list[str]:
    """The answer: a headline, the traits, and how far they hold."""
    told = [f"  {trait:<14} {value}" for trait, value in found.traits.told().items()]
    told.append("  sixth          divided or multiplied: these never write different bytes")
    told += [f"  tile           {found.tile} (fp8_ds_mla)"] if found.tile else []
    shown = [f"target {target.name} ({target.describe()}): {found.headline()}", *told]
    if found.exact:
        shown.append(f"  predicts each of {found.compared:,} bytes written")
    else:
        shown.append(f"  contradicted at {found.contradiction}")
    declared = of_profile(target.profile)
    if declared != found.traits:
        shown.append(f"  it declares profile {target.profile.name}, which it is not")
    return shown
