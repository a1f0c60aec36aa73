"""Check receipts: what ran for each target and worker, and whether the counts agree."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from conformance.reports.verdicts import Outcome
from conformance.verdict import CRASHED

ARCHITECTURE = re.compile(r"sm_\d+")


@dataclass(frozen=True)
class Account:
    """Hold a worker's account of a target: the target's receipt, and the counts of the gate.

    `device` is the place of the target's arrays, as the gate saw it. `error` is the exception of the target's
    receipt().
    """

    worker: str
    target: str
    receipt: Mapping[str, Any]
    cases: int = 0
    rows: int = 0
    elements: int = 0
    calls: int = 0
    launches: int | None = None
    device: str = ""
    driver: str = ""
    peak_rss_mib: int = 0
    error: str = ""
    gpu_code: bool = False
    kernels: Sequence[Mapping[str, Any]] = field(default=())
    """The kernels of one call of each operator, seen on the device before the tests: name, registers, sizes."""
    kernels_after: Sequence[Mapping[str, Any]] = field(default=())
    """The kernels of one call of each operator, seen on the device after the tests."""
    unseen: str = ""
    """Why kernels could not be seen on the device."""
    declares: Mapping[str, str] = field(default_factory=dict)
    """The target's declarations that differ from the default: nan, profile, attends_in."""


def merged(receipts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return several receipts as one. Launches are added; values that differ between workers become a list."""
    keys = dict.fromkeys(key for receipt in receipts for key in receipt)
    return {key: _merged_values(key, [receipt[key] for receipt in receipts if key in receipt]) for key in keys}


def _merged_values(key: str, values: list[Any]) -> Any:
    if all(isinstance(value, Mapping) for value in values):
        return merged(values)
    if key == "launches" and all(isinstance(value, int) for value in values):
        return sum(values)
    distinct = [value for i, value in enumerate(values) if value not in values[:i]]
    return distinct[0] if len(distinct) == 1 else distinct


def what_is_wrong(outcomes: Sequence[Outcome], accounts: Sequence[Account]) -> Iterator[str]:
    """Yield why a target's receipts do not prove that the target ran. `outcomes` and `accounts` are that target's.

    Yields:
        One line for each reason.

    """
    workers = dict.fromkeys(outcome.worker for outcome in outcomes if outcome.cases)
    died = {outcome.worker for outcome in outcomes if outcome.verdict == CRASHED}
    for worker in workers:
        mine = [account for account in accounts if account.worker == worker]
        if mine:
            yield from _of_worker(mine[0], [outcome for outcome in outcomes if outcome.worker == worker])
        elif worker not in died:  # of whose end the reports have told
            yield f"{worker} judged cases and left no receipt"
    for device in dict.fromkeys(account.device for account in accounts):
        yield from different_builds(
            account.receipt for account in accounts if account.worker in workers and account.device == device
        )


def _of_worker(account: Account, outcomes: Sequence[Outcome]) -> Iterator[str]:
    who = account.worker
    if account.error:
        yield f"{who} has no receipt: {account.error}"
        return
    if not account.receipt:
        yield f"{who} has no receipt: the target's receipt() says nothing of what ran"
    elif account.device not in ("", "cpu") and _of_cpu(account.receipt):
        yield f"{who} handed arrays on {account.device} to a target whose receipt says cpu"
    if account.gpu_code:
        yield from (f"{who}: {what}" for what in _on_device(account))
    for what in ("cases", "rows", "elements", "calls"):
        told, counted = sum(getattr(outcome, what) for outcome in outcomes), getattr(account, what)
        if told != counted:
            yield f"{who} counted {counted:,} {what}, and its tests told of {told:,}"
    launched = sum(outcome.launches or 0 for outcome in outcomes)
    if account.launches is not None and account.launches < launched:
        yield f"{who} counted {account.launches:,} launches, and its tests told of {launched:,}"
    if account.calls and account.launches == 0:
        yield f"{who} made {account.calls:,} calls and launched nothing"


def other_architecture(required: Iterable[str], accounts: Iterable[Account]) -> Iterator[str]:
    """Yield one line for each worker that compared on a device of another architecture than the required ones."""
    wanted = [each for each in required if ARCHITECTURE.fullmatch(each)]
    for account in accounts:
        found = ARCHITECTURE.search(account.device)
        if account.cases and found and wanted and found[0] not in wanted:
            yield f"{account.worker} ran on {account.device}, and {' or '.join(wanted)} is required"


def _on_device(account: Account) -> Iterator[str]:
    """Yield what is wrong with the kernels that were seen on the device."""
    if account.unseen:
        if account.launches is None:
            yield f"it counts no launches, and none could be seen: {account.unseen}"
        return
    before, after = _names(account.kernels), _names(account.kernels_after)
    for call, names in before.items():
        if not any(names):
            yield f"a call of {call} ran no kernel on the device"
        elif after.get(call, names) != names:
            yield f"a call of {call} ran {', '.join(names)} at first, and {', '.join(after[call])} in the end"
    own = account.receipt.get("kernel")
    if own and before and not any(str(own) in name for names in before.values() for name in names):
        yield f"the receipt says {own}, which no call ran"


def _names(kernels: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for kernel in kernels:
        found.setdefault(str(kernel["call"]), []).append(str(kernel["kernel"]))
    return found


def _of_cpu(receipt: Mapping[str, Any]) -> bool:
    devices = receipt.get("devices") or receipt.get("device", "")
    several = devices if isinstance(devices, Mapping | list) else [devices]
    return all(str(device).lower() == "cpu" for device in several)


def different_builds(receipts: Iterable[Mapping[str, Any]], who: str = "workers", but: str = ".") -> Iterator[str]:
    """Yield a line for each hash that differs between a target's receipts, unless its name ends with `but`."""
    hashes: dict[str, set[str]] = {}
    for receipt in receipts:
        for path, value in _hashes(receipt):
            hashes.setdefault(path, set()).add(value)
    for path, found in hashes.items():
        if len(found) > 1 and not path.endswith(but):
            yield f"{who} ran different builds: {path} is {' and '.join(sorted(value[:16] for value in found))}"


def _hashes(receipt: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in receipt.items():
        where = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from _hashes(value, where)
        elif key.endswith("sha256") and isinstance(value, str):
            yield where, value
