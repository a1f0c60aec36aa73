"""How many workers a run takes, which device each is pinned to, and how much of it each may use. Asks no device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from conformance.shortage import size

GIB = 1 << 30

CONTEXT = GIB
"""Bytes of device memory that a process takes beside its arrays: a CUDA context, and the modules of its libraries."""

HOST, HOST_BESIDE_A_GPU = GIB, 4 * GIB
"""Bytes of the host's memory that a worker takes; what a device holds is made and compared by way of the host."""


WORKERS_OF_A_ROOM = 4
"""How many workers share a room for the largest cases: few tests need one."""


MOST_OF_A_DEVICE = 8
"""How many workers with rooms a device gets: more of them wait for each other there, as 16 did on an H200."""


@dataclass(frozen=True)
class Gpu:
    """A visible device as CUDA numbers them: its architecture such as "sm_90", and its memory in bytes."""

    index: int
    name: str
    sm: str
    free: int
    total: int
    uuid: str = ""
    driver: str = ""


@dataclass(frozen=True)
class Supply:
    """What the machine has: `host_free` are bytes, None if nobody says so; `why_no_gpu` says why none was found."""

    cpus: int
    host_free: int | None = None
    gpus: tuple[Gpu, ...] = ()
    why_no_gpu: str = ""


@dataclass(frozen=True)
class Demand:
    """What the targets of a run want.

    `device_bytes` is what the largest cases take of a worker's device, None if no target is GPU code; `usual_bytes` is
    what the others take, None for as much; `most_workers` is the fewest that a target names; `architectures` are those
    of which a device has to be, if there are any.
    """

    device_bytes: int | None = None
    usual_bytes: int | None = None
    most_workers: int | None = None
    architectures: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Rooms:
    """How many workers of a device may each use `nbytes` of it at a time, for one of the largest cases."""

    count: int
    nbytes: int


@dataclass(frozen=True)
class Plan:
    """Each worker's device, None for a worker without one; the bytes that each may use of it; and why, in words.

    A device in `rooms` has that many rooms for the largest cases, one of which a worker takes before such a case.
    """

    devices: tuple[Gpu | None, ...]
    limits: Mapping[Gpu, int]
    why: str
    rooms: Mapping[Gpu, Rooms] = field(default_factory=dict)

    @property
    def workers(self) -> int:
        """How many there are."""
        return len(self.devices)

    def lines(self) -> list[str]:
        """For a person: how many workers and why, and which are on each device."""
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
    """As many workers as there are CPUs and room on the devices for, at least one; or as many as `asked`.

    Worker i has device i mod G, G being the devices that are of a required architecture; a device takes part as long
    as it has room. If none has room for the largest cases, each has one worker, in which they are not judged.
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
    """How many workers have room on a device: for the largest cases each, or for the usual ones beside some rooms."""
    workers = gpu.free // ((demand.device_bytes or 0) + CONTEXT)
    while (found := _rooms(gpu, workers + 1, demand)) and found.count >= (workers + 1) // WORKERS_OF_A_ROOM:
        if workers >= MOST_OF_A_DEVICE:
            break
        workers += 1
    return workers


def _rooms(gpu: Gpu, workers: int, demand: Demand) -> Rooms | None:
    """The rooms of a device that so many workers share: one for each four of them, or fewer if they would be too small.

    None if each can have the room for the largest cases to itself, or if there is not even one.
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
    """One worker to each device in turn, to those with room as long as any has."""
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
