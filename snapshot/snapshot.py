"""What the suite does and says, recorded before the move of all modules and compared after it; not made to stay.

python snapshot/snapshot.py record [PART ...] writes snapshot/*.json and *.txt; python snapshot/snapshot.py compare
[PART ...] prints what differs and exits with 1, or with 0 if nothing does. Parts are texts, vectors, dumps, faults and
gate, or gate-host, gate-numpy, gate-torch alone. The constants say where things are: after the move they are edited,
and RENAMES says which words were to change.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

from stored import of_fixture
from words import in_a_line, in_short, plain, reduced

RENAMES: list[tuple[str, str]] = []
"""Regular expressions of old words and what stands for them now; applied in turn to what was recorded."""

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
COMMAND = [sys.executable, "-m", "conformance"]
PYTEST = [sys.executable, "-m", "pytest"]
GATE = "conformance/gate"
"""The folder of the gate's tests; they may also lie in folders of it."""
GATE_OPTIONS = "NVFP4 MLA conformance"
"""The group of `pytest --help`."""
LINES = ROOT / "docs" / "faults.md"
"""Where `record` finds the test of each fault; `compare` takes those that were recorded."""
PYTHONPATH: list[str] = []
"""More folders to import from, such as src."""


def words(text: str) -> list[str]:
    """The words of a text."""
    return text.split()


COMMANDS = words("targets bench bench-plans identify faults show spec vectors replay merge histogram capacity")
KINDS = words("write gather plan twin merge context serve")
"""Kinds of faults, the one that takes longest first; those of kind device need a GPU."""
JUDGED = words("""
    starts-ignored nibbles-swapped product-ties-away write-scale-down cut-unaligned workspace-without-cap
    merge-weights-swapped attend-empty-not-written serving-next-table-row starts-not-passed
""")
"""Faults that `faults NAME` is asked about."""
DUMPED = words("""
    starts-ignored nibbles-swapped last-row-not-written record-stride-packed batch-size-unchecked product-ties-away
    rows-of-request-0 numbers-alike-starts-ignored write-scale-down write-slots-clamped write-tile-of-the-row
    write-fp8-multiplied-by-scale merge-weights-swapped cut-unaligned cu-seq-lens-counted-on workspace-without-cap
    starts-not-passed attend-empty-not-written serving-next-table-row
""")
"""Faults whose fixtures are recorded."""

UNSTABLE = ["dst-offset-in-32-bits"]
"""Faults whose explanations are left out: of the pairs that explain it, one was once found and then no more."""

TICKS = {"faults": "0.0001", "dumps": "0.001"}
"""See clock.py: a search of 3 s has 30,000 steps then, more than it takes; a smaller case is looked for in 3,000."""
SECONDS_TO_EXPLAIN = "1e9"

Files = dict[str, str]
"""What a part writes: texts by name."""


def run(command: list[str], tick: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the project's folder, without a GPU, colour or a terminal; under clock.py if there is a tick."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))}
    fixed = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb", "CUDA_VISIBLE_DEVICES": "", "PYTHONUTF8": "1"}
    paths = os.pathsep.join([*PYTHONPATH, str(HERE)])
    changed = {**own, **fixed, "PYTHONPATH": paths, "SNAPSHOT_TICK": tick, **environment}
    if not tick:
        del changed["SNAPSHOT_TICK"]
    return subprocess.run(command, cwd=ROOT, env=changed, capture_output=True, text=True)


def said(command: list[str], done: subprocess.CompletedProcess[str], without: str = "") -> str:
    """A command, its exit code and what it printed, but for lines that match an expression."""
    lines = plain(done.stdout + done.stderr).splitlines()
    kept = [line for line in lines if not (without and re.search(without, line))]
    return "\n".join([f"$ {' '.join(command)}", *kept, f"exit {done.returncode}", ""])


def as_json(value: Any) -> str:
    """JSON, sorted, an item a line."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def recorded(name: str) -> str:
    """What was recorded under a name, with the words of today; "" if nothing was."""
    path = HERE / name
    text = path.read_text() if path.exists() else ""
    for pattern, instead in RENAMES:
        text = re.sub(pattern, instead, text)
    return text


def node(test: str, target: str) -> str:
    """The node id of a recorded test, wherever its file lies, for a target."""
    file, _, function = test.partition("::")
    found = sorted((ROOT / GATE).rglob(file))
    return f"{found[0].relative_to(ROOT) if found else file}::{function.replace('{target}', target)}"


def judged(options: list[str], name: str, tick: str) -> dict[str, dict[str, Any]]:
    """Run a part of the gate in one process; return gate.json's targets by name."""
    quiet = ["-q", "-p", "no:cacheprovider", "--tb=no", "-n", "0", "--partial-ok", "--examples", "", "--seed", "0"]
    with TemporaryDirectory() as folder:
        always = [*quiet, "-p", "clock", "--explain", SECONDS_TO_EXPLAIN, "--profile", "ci", "--report-dir", folder]
        done = run([*PYTEST, *always, *options], tick)
        if done.returncode not in (0, 1, 6):
            sys.exit(f"{name}: pytest exited with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        report = json.loads((Path(folder) / "gate.json").read_text())
    return {target["name"]: target for target in report["targets"]}


def lines_of_models() -> dict[str, dict[str, str]]:
    """By kind and name of each fault that needs no GPU, the test that sees it soonest."""
    found: dict[str, dict[str, str]] = {kind: {} for kind in KINDS}
    kind = ""
    for line in LINES.read_text().splitlines():
        if line.startswith("## "):
            kind = line[3:]
        match = re.fullmatch(r"\| ([^|]+) \| [^|]* \| .* \| \d+ of \d+ \| `([^`]*)` \| \d{4}-\d\d-\d\d \|", line)
        if match and kind in found:
            found[kind][match[1]] = match[2]
    return found


def tests_of_faults() -> dict[str, dict[str, str]]:
    """The same of what was recorded, if all kinds were and this is no recording."""
    if RECORDING or not all((HERE / f"faults-{kind}.json").exists() for kind in KINDS):
        return lines_of_models()
    kinds = {kind: json.loads(recorded(f"faults-{kind}.json")) for kind in KINDS}
    return {kind: {name: fault["asked"] for name, fault in found.items()} for kind, found in kinds.items()}


def faults() -> Files:
    """By kind: the first failure of each fault in the test that sees it soonest, or else in that test's file."""
    with ThreadPoolExecutor(2) as pool:
        return dict(pool.map(lambda item: (f"faults-{item[0]}.json", of_kind(*item)), tests_of_faults().items()))


def of_kind(kind: str, tests: dict[str, str]) -> str:
    """What is said of the faults of one kind, all judged in one process."""
    found = seen(kind, {name: node(test, f"fault:{name}") for name, test in tests.items()})
    # Those that remember are wrong after other tests alone.
    rest = {name: node(tests[name], "").partition("::")[0] for name in tests if not found[name]["failures"]}
    again = seen(kind, rest) if rest else {}
    table = {}
    for name, test in tests.items():
        target = again.get(name, found[name])
        table[name] = {"asked": test, "alone": name not in again, "tests": target["tests"]}
        if name not in again:  # how far a whole file gets before a fault that remembers is seen goes by addresses
            table[name]["cases"] = target["cases"]
        table[name] |= told(target["failures"][0], f"fault:{name}") if target["failures"] else {}
        if name in UNSTABLE:
            del table[name]["explained_by"]
            table[name]["message"] = [line for line in table[name]["message"] if "  explained exactly by: " not in line]
    return as_json(table)


def seen(kind: str, tests: dict[str, str]) -> dict[str, dict[str, Any]]:
    """By name of a fault what gate.json says of it."""
    targets = [argument for name in tests for argument in ("--target", f"fault:{name}")]
    options = ["--dump-dir", "", *dict.fromkeys(tests.values()), *targets]
    return {name.removeprefix("fault:"): found for name, found in judged(options, kind, TICKS["faults"]).items()}


def told(failure: dict[str, Any], target: str) -> dict[str, Any]:
    """A failure of gate.json."""
    kept = {name: failure[name] for name in ("clause", "verdict", "explained_by")}
    return {**kept, "test": reduced(failure["test"], target), "message": plain(failure["message"]).splitlines()}


def gate(target: str) -> Files:
    """The whole gate on one target: gate.json without times, hosts, versions and paths, and the names of the tests."""
    with TemporaryDirectory() as folder:
        options = ["-n", "2", "--target", target, "--profile", "quick", "--seed", "0", "--report-dir", folder]
        done = run([*PYTEST, GATE, *options, "-p", "no:cacheprovider", "--dump-dir", ""])
        if not (Path(folder) / "junit.xml").exists():
            sys.exit(f"gate: pytest exited with {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        report = json.loads((Path(folder) / "gate.json").read_text())
        tests = [*ElementTree.parse(Path(folder) / "junit.xml").iter("testcase")]
    of_run = words("verdict seed profile exit_status complete reasons partial partial_ok required asked_targets shard")
    of_target = words("name verdict declares tests cases rows elements left_out")
    kept = {name: report[name] for name in [*of_run, "campaign", "waivers"]}
    kept["repeat"] = plain(report["repeat"])
    kept["suite"] = {name: report["suite"][name] for name in ("tests", "asked")}
    kept["suite"] |= {
        name: [reduced(test, target) for test in report["suite"][name]] for name in ("deselected", "spared")
    }
    kept["targets"] = [
        {name: each[name] for name in of_target}
        | {"failures": [told(failure, each["name"]) for failure in each["failures"]]}
        | {"clauses": {clause.pop("id"): in_a_line(clause) for clause in each["clauses"]}}
        for each in report["targets"]
    ]
    kept["terminal"] = plain(done.stdout[done.stdout.find("= gate: ") :]).splitlines()[1:-1]  # times are in both
    kept["tests"] = in_short(tests)
    return {f"gate-{target}.json": as_json(kept)}


def vectors() -> Files:
    """What `vectors --check` says."""
    return {"vectors.txt": said(["vectors", "--check"], run([*COMMAND, "vectors", "--check"]))}


def dumps() -> Files:
    """By fault the fixtures that it leaves: names, what they say of the failure, and hashes of their arrays."""
    tests = {name: test for found in tests_of_faults().values() for name, test in found.items()}
    with ThreadPoolExecutor(2) as pool:
        found = [*pool.map(lambda name: dumped(name, tests[name]), DUMPED)]
    return {"dumps.json": as_json(dict(zip(DUMPED, found, strict=True)))}


def dumped(name: str, test: str) -> dict[str, Any]:
    """The fixtures of one fault."""
    with TemporaryDirectory() as folder:
        chosen = [node(test, f"fault:{name}"), "--target", f"fault:{name}"]
        judged([*chosen, "--dump-dir", folder, "--dump-limit", "1000"], name, TICKS["dumps"])
        files = [of_fixture(path) for path in Path(folder).iterdir()]
    if not files or len(dict(files)) < len(files):
        sys.exit(f"{name}: it leaves {[file for file, _ in files]}; expected are some, of different clauses")
    return dict(files)


def texts() -> Files:
    """What commands print that take no time, and the help of all."""
    helps = [[*([command] if command else []), "--help"] for command in ("", *COMMANDS)]
    others = [["spec"], ["targets"], ["faults", "--profile", "quick", *JUDGED], ["faults", "no-such-fault"]]
    with ThreadPoolExecutor(2) as pool:
        done = [*pool.map(lambda each: said(each, run([*COMMAND, *each]), r"^  soonest "), [*others, *helps])]
    groups = re.split(r"\n(?=\S.*:\n)", run([*PYTEST, "--help"]).stdout)
    options = [group for group in groups if group.startswith(GATE_OPTIONS)]
    names = ["spec", "targets", "faults", "no-fault"]
    files = {f"text-{name}.txt": text for name, text in zip(names, done, strict=False)}
    # Faults are told of as they come.
    files["text-faults.txt"] = "\n".join(sorted(files["text-faults.txt"].splitlines())) + "\n"
    return {
        **files,
        "text-help.txt": "\n".join(done[len(names) :]),
        "text-pytest-help.txt": plain("\n".join(options)) + "\n",
    }


PARTS: dict[str, Callable[[], Files]] = {
    "texts": texts,
    "vectors": vectors,
    "dumps": dumps,
    "faults": faults,
    **{f"gate-{target}": partial(gate, target) for target in ("host", "numpy", "torch")},
}


def main(action: str = "", *asked: str) -> int:
    """Record or compare some parts, or all."""
    global RECORDING
    chosen = [part for part in PARTS if not asked or part in asked or part.partition("-")[0] in asked]
    if action not in ("record", "compare") or {*asked} - {*PARTS, "gate"}:
        sys.exit(f"usage: snapshot.py record|compare [{'|'.join([*PARTS, 'gate'])} ...]")
    RECORDING = action == "record"
    wrong = 0
    for part in chosen:
        began = time.time()
        for name, text in PARTS[part]().items():
            if RECORDING:
                (HERE / name).write_text(text)
                continue
            lines = [each.splitlines(keepends=True) for each in (recorded(name), text)]
            found = [*difflib.unified_diff(*lines, f"recorded/{name}", f"today/{name}", n=2)]
            sys.stdout.writelines(found)
            wrong += bool(found)
        print(f"{part}: {action}, {time.time() - began:.0f} s", file=sys.stderr)
    return 1 if wrong else 0


RECORDING = False

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
