"""Implement `python -m conformance identify`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from conformance.identify.probe import Identity, identify, tile_of
from conformance.judge import Judge
from conformance.targets.base import WRITE_FP8, WRITE_NVFP4, Target
from conformance.verdict import Crashed, NotJudged, Unsupported
from conformance.write_traits import of_profile

IDENTIFIED, CONTRADICTED, CANNOT_BE_JUDGED = 0, 1, 125


def report(targets: Sequence[Target], console: Console) -> int:
    """Identify the targets' writers and print the answers. Return the exit code."""
    codes, found = [], {}
    for target in targets:
        code, identity = _one(target, console)
        codes.append(code)
        if identity:
            found[target.name] = identity
    for line in disagreements(found):
        console.print(line, markup=False)
        codes.append(CONTRADICTED)
    return max(codes, key=(IDENTIFIED, CONTRADICTED, CANNOT_BE_JUDGED).index)


def disagreements(found: dict[str, Identity]) -> list[str]:
    """Return a line for each target after the first that writes other bytes than the first."""
    names = list(found)
    said = []
    for name in names[1:]:
        first, other = found[names[0]], found[name]
        differing = {**other.traits.differing(first.traits)}
        if first.tile and other.tile and first.tile != other.tile:
            differing["tile"] = (other.tile, first.tile)
        if differing:
            what = ", ".join(f"{trait} {mine} and not {theirs}" for trait, (mine, theirs) in differing.items())
            said.append(f"{name} and {names[0]} must not write to one cache: {name} has {what}")
    return said


def _one(target: Target, console: Console) -> tuple[int, Identity | None]:
    reason = target.unavailable()
    if reason is None and WRITE_NVFP4 not in target.capabilities:
        reason = f"it lacks {WRITE_NVFP4}"
    reason = reason or target.hindrance(WRITE_NVFP4)
    if reason is not None:
        console.print(f"target {target.name}: not judged: {reason}", markup=False)
        _print_tile_alone(target, console)
        return CANNOT_BE_JUDGED, None
    try:
        found = identify(target)
    except (NotJudged, Unsupported) as error:
        console.print(f"target {target.name}: not judged: {error}", markup=False)
        return CANNOT_BE_JUDGED, None
    except Crashed as error:
        console.print(str(error), markup=False)
        return CONTRADICTED, None
    for line in lines(target, found):
        console.print(line, markup=False)
    return (IDENTIFIED if found.exact and not _declared_otherwise(target, found) else CONTRADICTED), found


def _declared_otherwise(target: Target, found: Identity) -> bool:
    """Return whether a target writes otherwise than the profile that it declares."""
    tile = found.tile and found.tile != target.profile.tile
    return of_profile(target.profile) != found.traits or bool(tile)


def _print_tile_alone(target: Target, console: Console) -> None:
    """Print the tile rule of a target that writes fp8_ds_mla here and not nvfp4_ds_mla."""
    if target.unavailable() or WRITE_FP8 not in target.capabilities or target.hindrance(WRITE_FP8):
        return
    try:
        console.print(f"  tile           {tile_of(Judge(target, ['WRITE-17']))} (fp8_ds_mla)", markup=False)
    except (Crashed, NotJudged) as error:
        console.print(str(error), markup=False)


def lines(target: Target, found: Identity) -> list[str]:
    """Return the printed answer: a headline, the traits, and how well they predict."""
    told = [f"  {trait:<14} {value}" for trait, value in found.traits.told().items()]
    told.append("  sixth          divided or multiplied: these never write different bytes")
    told += [f"  tile           {found.tile} (fp8_ds_mla)"] if found.tile else []
    shown = [f"target {target.name} ({target.describe()}): {found.headline()}", *told]
    if found.exact:
        shown.append(f"  predicts each of {found.compared:,} bytes written")
    else:
        shown.append(f"  contradicted at {found.contradiction}")
    if _declared_otherwise(target, found):
        shown.append(f"  it declares profile {target.profile.name}, which it is not")
    return shown
