"""Plan the workers of a run: how many, on which device each is, and how much of it each may use. Asks no device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from conformance.shortage import size

GIB = 1 << 30

CONTEXT = GIB
"""Bytes of device memory of a process besides its arrays: the CUDA context, and the modules of libraries."""

HOST, HOST_BESIDE_A_GPU = GIB, 4 * GIB
"""Bytes of host memory of a worker. Arrays on a device are made and compared on the host."""


WORKERS_OF_A_ROOM = 4
"""The number of workers that share a room for the largest cases. Few tests need one."""


MOST_OF_A_DEVICE = 8
"""The most workers with rooms on a device. More of them wait for each other, as 16 did on an H200."""


@dataclass(frozen=True)
class Gpu:
    """Describe a visible device by CUDA's number. `sm` is its architecture, such as "sm_90"; memory is in bytes."""

    index: int
    name: str
    sm: str
    free: int
    total: int
    uuid: str = ""
    driver: str = ""


@dataclass(frozen=True)
class Supply:
    """Describe the machine. `host_free` is in bytes, None if unknown; `why_no_gpu` says why there is no GPU."""

    cpus: int
    host_free: int | None = None
    gpus: tuple[Gpu, ...] = ()
    why_no_gpu: str = ""


@dataclass(frozen=True)
class Demand:
    """Describe the needs of the targets of a run.

    `device_bytes` is the device memory of the largest cases, None if no target is GPU code. `usual_bytes` is that of
    other cases, None if it is the same. `most_workers` is the smallest limit of a target. `architectures` are the
    allowed ones; empty means all.
    """

    device_bytes: int | None = None
    usual_bytes: int | None = None
    most_workers: int | None = None
    architectures: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Rooms:
    """Allow `count` workers of a device to use `nbytes` of it at once, for one of the largest cases each."""

    count: int
    nbytes: int


@dataclass(frozen=True)
class Plan:
    """Assign each worker a device, or None, and the bytes that it may use; `why` explains the number of workers.

    A device in `rooms` has that many rooms for the largest cases. A worker takes a room before it runs one.
    """

    devices: tuple[Gpu | None, ...]
    limits: Mapping[Gpu, int]
    why: str
    rooms: Mapping[Gpu, Rooms] = field(default_factory=dict)

    @property
    def workers(self) -> int:
        """The number of workers."""
        return len(self.devices)

    def lines(self) -> list[str]:
        """Return lines for people: how many workers and why, and which are on each device."""
        lines = [f"workers: {self.why}"]
        for gpu, limit in self.limits.items():
            here = " ".join(f"gw{place}" for place, device in enumerate(self.devices) if device == gpu)
            facts = [gpu.name, gpu.sm, *([f"driver {gpu.driver}"] if gpu.driver else [])]
            facts += [f"{size(gpu.free)} of {size(gpu.total)} free"]
            rooms = self.rooms.get(gpu)
            large = f", {_several(rooms.count, 'room')} of {size(rooms.nbytes)} for the largest cases" if rooms else ""
            lines.append(f"  GPU {gpu.index}, {', '.join(facts)}: {here}, up to {size(limit)} each{large}")
        return lines


def plan(supply: Supply, demand: Demand, asked: int | None = None) -> Plan:
    """Plan as many workers as there are CPUs and room on the devices for, at least one; or as many as `asked`.

    Workers go round the devices of the required architectures, and a device takes part as long as it has room. If no
    device has room for the largest cases, each has one worker, which does not judge them.

    Returns:
        The plan.

    """
    right = [gpu for gpu in supply.gpus if gpu.sm in (demand.architectures or {gpu.sm})]
    case = (demand.device_bytes or 0) + CONTEXT
    rooms = {gpu: _capacity(gpu, demand) for gpu in right} if demand.device_bytes is not None else {}
    host = HOST_BESIDE_A_GPU if rooms else HOST
    bounds = {
        "CPUs": supply.cpus,
        "room": (sum(rooms.values()) or len(rooms)) if rooms else None,
        "host": None if supply.host_free is None else supply.host_free // host,
        "wish": demand.most_workers,
    }
    wanted = max(1, min(bound for bound in bounds.values() if bound is not None))
    dealt = _dealt(rooms, asked or wanted)
    sharing = {gpu: workers for gpu, workers in Counter(dealt).items() if gpu}
    shared = {gpu: found for gpu, workers in sharing.items() if (found := _rooms(gpu, workers, demand))}
    limits = {
        gpu: demand.usual_bytes or 0 if gpu in shared else max(gpu.free // workers - CONTEXT, 1)
        for gpu, workers in sharing.items()
    }
    largest = {gpu: shared[gpu].nbytes if gpu in shared else limit for gpu, limit in limits.items()}
    number = f"{wanted}" if asked in (None, wanted) else f"{asked}, as asked"
    why = f"{number} ({', '.join(_reasons(supply, demand, rooms, bounds, wanted))})"
    if (least := min(largest.values(), default=case)) < (demand.device_bytes or 0):
        need = size(demand.device_bytes or 0)
        why += (
            f"; {need}, which the largest cases take, is more than {size(least)}: those that do not fit are not judged"
        )
    return Plan(tuple(dealt), limits, why, shared)


def _capacity(gpu: Gpu, demand: Demand) -> int:
    """Return how many workers fit on a device, each with room for the largest cases, or sharing some rooms."""
    workers = gpu.free // ((demand.device_bytes or 0) + CONTEXT)
    while (found := _rooms(gpu, workers + 1, demand)) and found.count >= (workers + 1) // WORKERS_OF_A_ROOM:
        if workers >= MOST_OF_A_DEVICE:
            break
        workers += 1
    return workers


def _rooms(gpu: Gpu, workers: int, demand: Demand) -> Rooms | None:
    """Return the rooms that `workers` workers share on a device: one for each four, or fewer if they were too small.

    Returns:
        None if each worker can have the memory of the largest cases alone, or if not even one room fits.

    """
    if demand.device_bytes is None or demand.usual_bytes is None:
        return None
    free = gpu.free - workers * CONTEXT
    if free // max(workers, 1) >= demand.device_bytes:
        return None
    for rooms in range(max(1, workers // WORKERS_OF_A_ROOM), 0, -1):
        nbytes = (free - (workers - rooms) * demand.usual_bytes) // rooms
        if nbytes >= demand.device_bytes:
            return Rooms(rooms, nbytes)
    return None


def _dealt(rooms: Mapping[Gpu, int], workers: int) -> Sequence[Gpu | None]:
    """Return the device of each worker. Each device in turn gets one, as long as it has room."""
    usable = [gpu for gpu, room in rooms.items() if room] or list(rooms)
    dealt: list[Gpu | None] = []
    for turn in count():
        dealt += [gpu for gpu in usable if rooms[gpu] > turn] or usable or [None]
        if len(dealt) >= workers:
            break
    return dealt[:workers]


def _reasons(
    supply: Supply, demand: Demand, rooms: Mapping[Gpu, int], bounds: Mapping[str, int | None], workers: int
) -> Iterator[str]:
    yield _several(supply.cpus, "CPU")
    if demand.device_bytes is not None:
        case = size((demand.usual_bytes or demand.device_bytes) + CONTEXT)
        if others := len(supply.gpus) - len(rooms):
            yield f"{_several(others, 'GPU')} not {' or '.join(sorted(demand.architectures))}"
        if rooms:
            yield f"{_several(len(rooms), 'GPU')} with room for {sum(rooms.values())} of {case}"
        elif not supply.gpus:
            yield f"no GPU: {supply.why_no_gpu}"
        if any(rooms.values()) and (full := [gpu for gpu, room in rooms.items() if not room]):
            yield f"GPU {' '.join(str(gpu.index) for gpu in full)} left out, as it has no room"
    if bounds["host"] is not None and bounds["host"] <= workers:
        yield f"{size(supply.host_free or 0)} of the host's memory, {size(HOST_BESIDE_A_GPU if rooms else HOST)} each"
    if bounds["wish"] is not None and bounds["wish"] <= workers:
        yield f"a target bears at most {bounds['wish']}"


def _several(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
