"""Workers on devices: which entry of CUDA_VISIBLE_DEVICES each gets, and when, on devices that are pretended."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from conformance.running import devices, pinning, pytest_plugins
from conformance.running.accounts import device_of
from conformance.running.device_probe import driver
from conformance.running.pinning import Places, entry, taken
from conformance.running.workers import CONTEXT
from conformance.selfcheck.running import gate

MIG = "MIG-f4d0a2c1-5e1b-5d0a-9a5d-000000000001"


@pytest.mark.parametrize(
    ("index", "visible", "expected"),
    [
        (0, None, "0"),
        (7, None, "7"),
        (1, "", "1"),
        (0, "2,3", "2"),
        (1, "2, 3", "3"),
        (1, f"GPU-5e1b,{MIG}", MIG),
        (2, "3,2,1,0", "1"),
    ],
)
def test_a_worker_is_handed_the_entry_of_its_device(index: int, visible: str | None, expected: str) -> None:
    assert entry(index, visible) == expected


def test_a_replacement_has_the_place_of_the_dead_one() -> None:
    places = Places()
    assert [places.take(f"gw{number}") for number in range(3)] == [0, 1, 2]
    places.leave("gw1")
    assert places.take("gw3") == 1
    places.leave("gw3")
    assert places.take("gw4") == 1
    places.leave("gw0")
    places.leave("gw2")
    assert places.take("gw5") == 2  # xdist replaces one before it hears of the next
    assert [places.take("gw6"), places.take("gw7")] == [0, 3]


def test_a_worker_that_never_had_a_place_leaves_none() -> None:
    places = Places()
    places.leave("gw9")
    assert places.take("gw0") == 0


def test_a_worker_in_which_cuda_is_initialised_already_is_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    worker: Any = SimpleNamespace(workerinput={"device": "1"})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setattr(pinning, "cuda_is_initialised", lambda: True)
    with pytest.raises(RuntimeError, match="CUDA_VISIBLE_DEVICES=1 comes too late"):
        pinning.pytest_configure(worker)
    monkeypatch.setattr(pinning, "cuda_is_initialised", lambda: False)
    pinning.pytest_configure(worker)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_process_without_the_driver_has_not_initialised_it() -> None:
    program = "from conformance.running.pinning import cuda_is_initialised as it; raise SystemExit(it())"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_no_plugin_stands_before_the_one_that_pins() -> None:
    assert pytest_plugins[0] == pinning.__name__


FACTS = '{"index": 0, "name": "B200", "sm": "sm_100", "free": 5, "total": 6, "uuid": "ab", "driver": "580.65"}'


@pytest.mark.parametrize(
    ("program", "count", "why"),
    [
        (f"print('noise'); print('{{\"devices\": [{FACTS}]}}')", 1, ""),
        ('print(\'{"devices": [], "why": "CUDA says:\\\\n no"}\')', 0, "CUDA says: no"),
        ("print('{\"devices\": []}')", 0, "no CUDA device is visible"),
        ("print('nonsense')", 0, "asking for the devices ended with status 0: nonsense"),
        ("print('[1, 2]')", 0, "asking for the devices ended with status 0: [1, 2]"),
        ('print(\'{"devices": [{"index": 0}]}\')', 0, "asking for the devices ended with status 0: {"),
        ("", 0, "asking for the devices ended with status 0: nothing"),
        ("raise SystemExit('no driver')", 0, "asking for the devices ended with status 1: no driver"),
        ("import os; os.abort()", 0, "asking for the devices ended with status -6: nothing"),
        ("import time; time.sleep(60)", 0, "asking for the devices took more than 0.5 s"),
    ],
)
def test_devices_are_found_or_it_is_said_why_not(program: str, count: int, why: str) -> None:
    found, said = devices.found((sys.executable, "-I", "-S", "-c", program), seconds=0.5 if "sleep" in program else 30)
    assert len(found) == count and said.startswith(why) and "\n" not in said


def test_the_version_of_the_driver_is_read_where_the_driver_says_it(tmp_path: Path) -> None:
    said = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs@x) Mon\nGCC 12.3.0\n"
    )
    (tmp_path / "version").write_text(said)
    assert driver(tmp_path / "version") == "580.65.06" and driver(tmp_path / "nowhere") == ""


# What CuPy said of a device of which nvidia-smi said GPU-bcc17cec-e461-7450-3893-0e8c087653bf.
OF_AN_H200 = {"name": b"NVIDIA H200", "major": 9, "minor": 0, "uuid": b"\xbc\xc1|\xec\xe4atP8\x93\x0e\x8c\x08vS\xbf"}


def test_a_device_is_named_alike_whichever_library_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    runtime = SimpleNamespace(getDevice=lambda: 0, getDeviceProperties=lambda index: OF_AN_H200)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=SimpleNamespace(runtime=runtime)))
    told = SimpleNamespace(name="NVIDIA H200", major=9, minor=0, uuid=UUID("bcc17cec-e461-7450-3893-0e8c087653bf"))
    cuda = SimpleNamespace(current_device=lambda: 0, get_device_properties=lambda index: told)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    for library in ("cupy", "torch:cuda"):
        target: Any = SimpleNamespace(memory=SimpleNamespace(on_device=True, name=library))
        assert device_of(target) == "NVIDIA H200, sm_90, bcc17cece461745038930e8c087653bf"


def test_a_program_that_is_not_there_finds_no_device() -> None:
    assert devices.found(("/no/such/program",))[1].startswith("the devices cannot be asked for: ")


PLUGIN = (
    *("-p", "conformance.selfcheck.fake_gpus", "--target", "conformance.selfcheck.fake_gpus:OnADevice"),
    "--exact-memory",  # under which nobody looks for kernels, with torch
)


def notes(path: Path, what: str) -> dict[str, object]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return {line["worker"]: line[what] for line in lines if what in line}


def test_auto_starts_workers_for_which_there_is_room_and_pins_them_before_their_targets_are_made(
    tmp_path: Path,
) -> None:
    there = {"NOTES": str(tmp_path / "notes"), "PRETENDED_FREE": f"[{CONTEXT + (2 << 30)}, {6 << 30}]"}
    there |= {"PYTEST_XDIST_AUTO_NUM_WORKERS": "2", "CUDA_VISIBLE_DEVICES": "6, GPU-7"}
    part = ("conformance/gate/test_calls.py", "-k", "no_rows")
    done = gate("-v", "-n", "auto", *PLUGIN, *part, **there)
    assert done.returncode == 0, done.stdout
    assert "workers: 2 (2 CPUs, 2 GPUs with room for 3 of 3.0 GiB)" in done.stdout
    assert "  GPU 1, pretended, sm_100, 6.0 GiB of 6.0 GiB free: gw1, up to 5.0 GiB each" in done.stdout
    assert notes(tmp_path / "notes", "visible") == {"main": "6, GPU-7", "gw0": "6", "gw1": "GPU-7"}
    assert notes(tmp_path / "notes", "limit") == {"gw0": 2 << 30, "gw1": 5 << 30}


def test_what_does_not_fit_into_a_workers_share_is_not_judged_and_the_rest_is(tmp_path: Path) -> None:
    share = CONTEXT + (64 << 10)
    there = {"NOTES": str(tmp_path / "notes"), "PRETENDED_FREE": f"[{2 * share}, {share}]"}
    part = ("conformance/gate/test_memory.py", "-k", "every_row and not without_starts")
    done = gate("-v", "-n", "3", *PLUGIN, *part, CUDA_VISIBLE_DEVICES="4,5", **there)
    assert done.returncode == 6, done.stdout
    assert "workers: 3, as asked (" in done.stdout and "2 GPUs with room for 0 of 3.0 GiB" in done.stdout
    assert "is more than 64.0 KiB: those that do not fit are not judged" in done.stdout
    visible = notes(tmp_path / "notes", "visible")
    assert [visible[worker] for worker in ("gw0", "gw1", "gw2")] == ["4", "5", "4"]
    assert set(notes(tmp_path / "notes", "limit").values()) == {64 << 10}
    needs = "needs 142.9 KiB more; this worker may use 64.0 KiB of pretended, of which 0 bytes are in use"
    assert needs in done.stdout and "gate: not judged" in done.stdout
    assert "8 passed, 2 skipped" in done.stdout, done.stdout


def test_of_two_workers_one_waits_for_the_only_room_and_a_dead_one_leaves_its_own(tmp_path: Path) -> None:
    path = f"{tmp_path}/0"
    holds = f"import os, time\nfrom conformance.running.pinning import taken\nwith taken({path!r}, 2) as room:\n"
    holds += "    print(room, flush=True)\n    time.sleep(60)\n"
    with taken(path, 2) as first:
        other = subprocess.Popen([sys.executable, "-c", holds], stdout=subprocess.PIPE, text=True)
        assert other.stdout and (first, other.stdout.readline()) == (0, "1\n")
        waiting = subprocess.Popen([sys.executable, "-c", holds], stdout=subprocess.PIPE, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(1)
        other.kill()
        assert waiting.stdout and waiting.stdout.readline() == "1\n"
    waiting.kill()
    for process in (other, waiting):
        process.communicate()


def test_a_worker_may_use_a_rooms_bytes_in_a_test_that_is_roomy_and_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []
    monkeypatch.setattr(pinning, "_limit", lambda config, nbytes: limits.append(nbytes))
    told = {"device_bytes": 3, "rooms": [f"{tmp_path}/0", 1, 21]}
    for marks, workerinput in (({"roomy"}, told), (set[str](), told), ({"roomy"}, {"device_bytes": 3})):
        item: Any = SimpleNamespace(
            config=SimpleNamespace(workerinput=workerinput),
            get_closest_marker=lambda name, marks=marks: name in marks,
        )
        protocol = pinning.pytest_runtest_protocol(item)
        next(protocol)
        limits.append(0)
        with pytest.raises(StopIteration):
            next(protocol)
    assert limits == [21, 0, 3, 0, 0]
