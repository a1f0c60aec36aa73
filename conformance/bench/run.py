"""Run a benchmark: choose each target's cases and place, measure, and note the facts of the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from typing import Any

from conformance.bench import cpu, device
from conformance.bench.devices import Device, device_of
from conformance.bench.facts import machine_facts, nvidia_smi
from conformance.bench.results import Measurement, Result, TargetNote
from conformance.bench.workloads import Case
from conformance.targets.base import GATHER, GATHER_STARTS, Target
from conformance.targets.kernels import CudaTarget, why_no_device

PLAIN = "cuda-plain"
ON_DEVICE, ON_CPU = ("cuda", PLAIN), ("numpy", "torch", "host", "host-plain")


@dataclass(frozen=True)
class Sizes:
    """Hold the sizes of the cases; every combination is a case. An empty tuple means the defaults of the place."""

    rows: tuple[int, ...] = ()
    block_sizes: tuple[int, ...] = ()
    requests: tuple[int, ...] = ()

    def on_device(self) -> list[Case]:
        """Return the cases for a GPU, those with most rows first."""
        return self._cases((1 << 22, 1 << 20, 1 << 16), (64, 1024), (1, 16, 256))

    def on_cpu(self) -> list[Case]:
        """Return the cases for a CPU, those with most rows first."""
        return self._cases((1 << 16,), (64,), (16,))

    def _cases(self, rows: tuple[int, ...], block_sizes: tuple[int, ...], requests: tuple[int, ...]) -> list[Case]:
        chosen = product(self.rows or rows, self.block_sizes or block_sizes, self.requests or requests)
        return sorted({Case(*sizes) for sizes in chosen}, key=lambda case: (-case.rows, case))


def default_targets() -> list[str]:
    """Return the names of the targets to measure by default."""
    return [*ON_CPU] if why_no_device() else [*ON_DEVICE, *ON_CPU]


def why_not(target: Target) -> str | None:
    """Return the reason that a target cannot be measured here, or None if it can."""
    lacking = {GATHER, GATHER_STARTS} - target.capabilities
    return f"it lacks {', '.join(sorted(lacking))}" if lacking else target.unavailable()


def runs_on_a_device(target: Target) -> bool:
    """Return whether a target would be measured on a GPU of this machine."""
    return why_not(target) is None and device_of(target.memory) is not None


def run(targets: Sequence[Target], sizes: Sizes, repeats: int, progress: Callable[[str], None]) -> Result:
    """Measure every target on the cases of its place. `progress` gets a few words before each measurement.

    Returns:
        The result.

    """
    reasons = {target.name: why_not(target) for target in targets}
    able = [target for target in targets if reasons[target.name] is None]
    groups: dict[str, list[Target]] = {}
    for target in able:
        groups.setdefault(target.memory.name, []).append(target)
    places = {name: device_of(together[0].memory) for name, together in groups.items()}
    machine, measurements = machine_facts(), []
    for name, place in places.items():
        if place is not None:
            facts, found = _on_device(place, groups[name], sizes.on_device(), repeats, progress)
            machine["device"] = machine["device"] or facts
            measurements += found
    on_cpu = [target for target in able if places[target.memory.name] is None]
    for case in sizes.on_cpu() if on_cpu else []:
        progress(f"{', '.join(target.name for target in on_cpu)}: {case}")
        measurements += cpu.bench(on_cpu, case, repeats)
    order = [target.name for target in targets]
    return Result(
        date=datetime.now(UTC).isoformat(timespec="seconds"),
        machine=machine,
        targets=[_note(target, reasons[target.name]) for target in targets],
        measurements=sorted(measurements, key=lambda m: (m.place != "device", order.index(m.target), m.case)),
    )


def _on_device(
    place: Device, targets: list[Target], cases: list[Case], repeats: int, progress: Callable[[str], None]
) -> tuple[dict[str, Any], list[Measurement]]:
    found: list[Measurement] = []
    facts, clocks = place.facts(), _Clocks(place.identity())
    plain = next((target for target in targets if target.name == PLAIN), None)
    if plain is None and why_no_device() is None:
        plain = CudaTarget(kernel="plain")
    for case in cases:
        progress(f"{', '.join(target.name for target in targets)}: {case}")
        found += device.bench(place, targets, plain, case, repeats, clocks.look)
    return {**facts, **(clocks.found or nvidia_smi(place.identity()))}, found


class _Clocks:
    """Read the clocks once, under the first load: that of the largest case, which runs first."""

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self.found: dict[str, Any] = {}

    def look(self, load: Callable[[], object]) -> None:
        self.found = self.found or nvidia_smi(self.identity, load)


def _note(target: Target, reason: str | None) -> TargetNote:
    if reason is not None:
        return TargetNote(target.name, "", reason)
    return TargetNote(target.name, target.describe(), None, target.receipt())
