"""Whatever a target, an option or a module hands over: no traceback, the right exit code, no lost or stale verdict."""

import json
import os
from pathlib import Path
from typing import cast

import execnet
import pytest

from conformance.reports.reading import problems_of
from conformance.selfcheck import handed_over
from conformance.selfcheck.running import run
from conformance.targets.registry import UnknownTarget, find
from conformance.targets.taken import ATTRIBUTES, Unusable

ME, TEST = "conformance.selfcheck.handed_over:", "conformance/gate/test_read.py"
OLD = {"verdict": "conforms"}
WORKERS = pytest.mark.parametrize("workers", [pytest.param("0", marks=pytest.mark.nightly), "2"])


def judged(folder: Path, *args: str, code: int, **environment: str) -> tuple[str, dict[str, object]]:
    """Run the gate where an earlier run was green; what it says, and its report, which never is that run's."""
    reports = folder / "reports"
    reports.mkdir()
    (reports / "gate.json").write_text(json.dumps(OLD))
    line = ("pytest", "-q", "-p", "no:cacheprovider", "--partial-ok", f"--report-dir={reports}")
    done = run(*line, *args, **environment)
    said = done.stdout + done.stderr
    assert "INTERNALERROR" not in said and "Traceback" not in said, said
    assert done.returncode == code, said
    report = json.loads((reports / "gate.json").read_text())
    assert report != OLD and not list(problems_of(report))
    assert (report["verdict"] == "conforms") == (code == 0)
    return said, report


@pytest.mark.parametrize("name", handed_over.product())
def test_what_a_target_says_of_itself_is_usable_or_refused_in_one_line(name: str) -> None:
    if name in handed_over.FINE:
        assert find(f"{ME}{name}")
        return
    with pytest.raises(UnknownTarget) as refused:
        find(f"{ME}{name}")
    said = str(refused.value)
    place = next(place for place in (*ATTRIBUTES, *handed_over.ANSWERS) if name.startswith(f"{place}_"))
    assert said.startswith(f"--target is '{ME}{name}', but ") and place in said and "\n" not in said
    assert said.encode() and ("allowed" in said or "raised" in said or "did you mean" in said or "lacks" in said)


@pytest.mark.parametrize("name", [*handed_over.GOOD_RECEIPTS, *handed_over.BAD_RECEIPTS, *handed_over.RAISED])
def test_a_receipt_is_json_that_any_process_can_be_told_or_named_in_one_line(name: str) -> None:
    target = find(f"{ME}receipt_{name}")
    if name in handed_over.GOOD_RECEIPTS:
        receipt = target.receipt()
        assert execnet.loads(execnet.dumps(receipt)) == receipt
        assert json.loads(json.dumps(receipt, allow_nan=False)) == receipt
        return
    with pytest.raises(Unusable, match=r"^its receipt\(\)|^receipt\(\)|^a key of receipt\(\)") as refused:
        target.receipt()
    assert "\n" not in str(refused.value) and str(refused.value).encode()


@WORKERS
def test_receipts_that_can_be_told_cost_no_verdict(workers: str, tmp_path: Path) -> None:
    names = [f"{ME}receipt_{name}" for name in handed_over.GOOD_RECEIPTS]
    targets = [word for name in names for word in ("--target", name)]
    _, report = judged(tmp_path, TEST, "-n", workers, "-k", "rope_byte_reads", *targets, code=0)
    told = {target["name"]: target for target in cast(list[dict[str, str]], report["targets"])}
    assert list(told) == names and all(told[name]["receipt"] for name in names)


@WORKERS
def test_receipts_that_cannot_are_named_and_what_was_judged_stands(workers: str, tmp_path: Path) -> None:
    wrong = [*handed_over.BAD_RECEIPTS, *handed_over.RAISED]
    targets = [word for name in wrong for word in ("--target", f"{ME}receipt_{name}")]
    said, report = judged(tmp_path, TEST, "-n", workers, "-k", "rope_byte_reads", *targets, code=6)
    assert {target["verdict"] for target in cast(list[dict[str, str]], report["targets"])} == {"conforms"}
    for name in wrong:
        assert f"not green: target {ME}receipt_{name}: " in said


def test_a_target_that_differs_is_red_whatever_its_receipt(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(
        "from conformance.selfcheck.handed_over import receipt_object\n"
        "class Wrong(receipt_object):\n"
        "    def cp_gather_and_upconvert_nvfp4_kv_cache(self, src_cache, dst, *args, **named):\n"
        "        super().cp_gather_and_upconvert_nvfp4_kv_cache(src_cache, dst, *args, **named)\n"
        "        dst[:1, 7] ^= 1\n"
    )
    line = (TEST, "-n0", "-k", "rope_byte_reads", "--dump-dir=", "--target", "theirs:Wrong")
    said, _ = judged(tmp_path, *line, code=1, PYTHONPATH=str(tmp_path))
    assert "differs: 2 clauses, 1 tests, 1 cases" in said and "no case was compared" not in said


@WORKERS
def test_whatever_a_gather_raises_or_does_to_its_arguments_is_its_verdict(workers: str, tmp_path: Path) -> None:
    raising = [f"{ME}raises_{name}" for name in handed_over.GATHER_RAISES]
    doing = [f"{ME}does_{name}" for name in handed_over.GATHER_DOES]
    targets = [word for name in (*raising, *doing) for word in ("--target", name)]
    line = (TEST, "-n", workers, "-k", "rope_byte_reads", "--dump-dir", str(tmp_path / "dumps"), "--examples=")
    said, report = judged(tmp_path, *line, *targets, code=1)
    found = {each["name"]: each["verdict"] for each in cast(list[dict[str, str]], report["targets"])}
    assert found == dict.fromkeys(raising, "crashed") | dict.fromkeys(doing, "differs")
    assert len(said) < 60_000


def test_threads_that_do_not_end_do_not_keep_the_exit_code(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(
        "import threading\nfrom conformance.targets.models import NumpyTarget\n"
        "class T(NumpyTarget):\n    def __init__(self):\n        super().__init__()\n"
        "        threading.Thread(target=threading.Event().wait, name='pump').start()\n"
    )
    line = (TEST, "-n0", "-k", "rope_byte_reads", "--target", "theirs:T")
    said, _ = judged(tmp_path, *line, code=0, PYTHONPATH=str(tmp_path))
    assert "threads that a target has started do not end (pump)" in said


def test_a_module_that_goes_elsewhere_takes_no_paths_along(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(
        "import os\nfrom conformance.targets.models import NumpyTarget as T\nos.chdir('/')\n"
    )
    line = (TEST, "-n2", "-k", "rope_byte_reads", "--target", "theirs:T")
    judged(tmp_path, *line, code=0, PYTHONPATH=str(tmp_path))


@pytest.mark.nightly
@pytest.mark.parametrize("name", handed_over.product())
def test_a_run_with_what_a_target_says_of_itself_ends_as_it_should(name: str, tmp_path: Path) -> None:
    line = (TEST, "-n", "2" if len(name) % 2 else "0", "-k", "rope_byte_reads", "--target", f"{ME}{name}")
    code = 6 if name == "unavailable_text" else 0 if name in handed_over.FINE else 4
    said, _ = judged(tmp_path, *line, code=code)
    assert code != 4 or len(said.strip().splitlines()) == 1


MODULES = {
    "syntax": ("def f(:\n", 4, "SyntaxError: "),
    "exits": ("raise SystemExit(0)\n", 4, "SystemExit: 0"),
    "leaves": ("import os\nos._exit(0)\n", 4, "it would end this process with status 0"),
    "skips": ("import pytest\npytest.skip('not here', allow_module_level=True)\n", 4, "Skipped: not here"),
    "stops": ("import pytest\npytest.exit('enough', returncode=0)\n", 4, "Exit: enough"),
    "recurses": ("def f():\n    f()\nf()\n", 4, "RecursionError: "),
    "bare": ("class B(BaseException): pass\nraise B('no way out')\n", 4, "B: no way out"),
    "lacks": ("import no_such_module\n", 4, "No module named 'no_such_module' (in <module>, "),
    "surrogate": ("raise OSError('/home/\\udc80')\n", 4, "OSError: /home/\\udc80"),
    "empty": ("", 4, "module 'empty' has no attribute 'T'"),
    "value": ("T = 3\n", 4, "TypeError: 'int' object is not callable"),
    "no_target": ("class T: pass\n", 4, "which is no conformance.targets.base.Target"),
    "arguments": (
        "from conformance.targets.models import NumpyTarget\nclass T(NumpyTarget):\n    def __init__(self, x): pass\n",
        4,
        "missing 1 required positional argument: 'x'",
    ),
    "claims": (
        "from conformance.targets.models import NumpyTarget\nfrom conformance.targets.base import Target\n"
        "class T(Target):\n    name, capabilities = 't', frozenset({'merge'})\n"
        "    def __init__(self): self.memory = NumpyTarget().memory\n    def describe(self): return 'here'\n",
        4,
        "it claims merge and does not define merge_attn_states()",
    ),
    "misspells": (
        "from conformance.targets.models import NumpyTarget\n"
        "class T(NumpyTarget):\n    capabilities = frozenset({'gather.nvfp'})\n",
        4,
        "'gather.nvfp', which is none; did you mean 'gather.nvfp4'?",
    ),
    "nameless": (
        "from conformance.targets.models import NumpyTarget\n"
        "class T(NumpyTarget):\n    name, nan = None, 'some'\n"
        "    @property\n    def memory(self): raise OSError('no memory to speak of')\n"
        "    @memory.setter\n    def memory(self, given): pass\n",
        4,
        "its name is None (NoneType); allowed is a text and its nan is 'some' (str); allowed is 'canonical' or 'any' "
        "and its memory raised OSError: no memory to speak of (in memory, ",
    ),
    "aborts": ("import os\nos.abort()\n", -6, "Fatal Python error: Aborted"),
    "segfaults": ("import ctypes\nctypes.string_at(0)\n", -11, "Fatal Python error: Segmentation fault"),
}
"""What a module does when it is imported, or has; the exit code, and what is said."""


@pytest.mark.parametrize("name", MODULES)
def test_whatever_a_module_does_when_it_is_imported_is_said_and_leaves_no_stale_report(
    name: str, tmp_path: Path
) -> None:
    source, code, says = MODULES[name]
    (tmp_path / f"{name}.py").write_text(source)
    said, report = judged(tmp_path, TEST, "--target", f"{name}:T", code=code, PYTHONPATH=str(tmp_path))
    assert says in said and (code < 0 or len(said.strip().splitlines()) == 1)
    if code == 4:
        assert says.split(" (")[0] in cast(list[str], report["reasons"])[0]


OPTIONS = {
    "target": (("--target", "hots"), "allowed are auto"),
    "waivers": (("--waivers", "no-such-file"), "no-such-file"),
    "profile": (("--profile", "fast"), "invalid choice: 'fast'"),
    "seed": (("--seed", "x"), "invalid int value: 'x'"),
    "unknown": (("--targt", "numpy"), "unrecognized arguments: --targt"),
    "require": (("--require", "vllm>>1"), "allowed are ranges such as"),
    "shard": (("--shard", "5/4"), "allowed is I/N"),
    "minutes": (("--minutes", "-1"), "allowed is a number above 0"),
    "round": (("--round", "0"), "allowed is a whole number from 1 on"),
    "explain": (("--explain", "-1"), "--explain is '-1'; allowed is a number of seconds from 0 on"),
    "explain nan": (("--explain", "nan"), "--explain is 'nan'; allowed is a number of seconds"),
    "dump limit": (("--dump-limit", "-1"), "--dump-limit is '-1'; allowed is a whole number from 0 on"),
    "dump limit text": (("--dump-limit", "many"), "--dump-limit is 'many'; allowed is"),
    "case timeout": (("--case-timeout", "-1"), "--case-timeout is '-1'; allowed is a number of seconds"),
    "case timeout text": (("--case-timeout", "soon"), "--case-timeout is 'soon'; allowed is a number"),
    "dump dir": (("--dump-dir", "README.md"), "--dump-dir is 'README.md', but 'README.md' is a file"),
    "dump dir below": (("--dump-dir", "README.md/x"), "--dump-dir is 'README.md/x', but 'README.md' is a file"),
    "report dir": (("--report-dir", ""), "--report-dir is ''; allowed is the name of a folder"),
    "examples": (("--examples", "ftp://x"), "--examples is 'ftp://x'"),
    "file": (("conformance/gate/no_such_file.py",), "file or directory not found"),
    "test": ((f"{TEST}::no_such_test",), "not found: "),
    "order": (("--target=numpy", "--seed=x"), "invalid int value: 'x'"),
}
"""Options that are wrong, and what is said: exit code 4, of pytest."""


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_that_is_wrong_leaves_no_stale_report(name: str, tmp_path: Path) -> None:
    args, says = OPTIONS[name]
    said, report = judged(tmp_path, *([] if "gate" in args[0] else [TEST]), *args, code=4)
    assert says in said
    assert cast(list[str], report["reasons"])[0].startswith("the run stopped before it judged: ")


def test_what_is_required_and_what_is_there_stands_in_the_report(tmp_path: Path) -> None:
    _, report = judged(tmp_path, TEST, "--target=numpy", "--require=sm_100", code=6)
    first, second = cast(list[str], report["reasons"])[:2]
    assert first == "the run judged nothing" and second.startswith("--require sm_100: not there. Available: attend, ")
    assert "--require sm_100: not there" in (tmp_path / "reports/gate.md").read_text()


def test_minutes_without_a_random_test_are_answered(tmp_path: Path) -> None:
    said, _ = judged(tmp_path, TEST, "--target=numpy", "--minutes=0.1", "-k", "rope_byte_reads", "-n0", code=6)
    assert "not green: --minutes 0.1: no random test was selected" in said


def test_the_line_that_repeats_a_run_repeats_what_it_required_and_waived(tmp_path: Path) -> None:
    (tmp_path / "waivers.toml").write_text("")
    asked = ("--require", "gather.nvfp4", "--require", "numpy>=1", "--waivers", str(tmp_path / "waivers.toml"))
    said, _ = judged(tmp_path, TEST, "--target=numpy", "-n0", "-k", "rope_byte_reads", *asked, code=0)
    assert f"--require gather.nvfp4 --require 'numpy>=1' --waivers {tmp_path}/waivers.toml" in said


def test_what_a_verdict_rests_on_is_said_everywhere(tmp_path: Path) -> None:
    (tmp_path / "theirs.py").write_text(
        "from conformance.targets.models import NumpyTarget\n"
        "class Any(NumpyTarget):\n    nan, attends_in = 'any', 'bf16'\n"
        "    def __init__(self): super().__init__(); self.profile = 'vllm-triton'\n"
    )
    line = (TEST, "-n0", "-k", "rope_byte_reads", "--target", "theirs:Any")
    said, report = judged(tmp_path, *line, code=0, PYTHONPATH=str(tmp_path))
    rests = 'This rests on what the target declares: nan = "any", profile = "vllm-triton", attends_in = "bf16"'
    assert rests in said and rests in (tmp_path / "reports/gate.md").read_text()
    (target,) = cast(list[dict[str, object]], report["targets"])
    assert target["declares"] == {"nan": "any", "profile": "vllm-triton", "attends_in": "bf16"}


def test_a_worker_does_not_touch_the_report_of_its_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    part = (TEST, "--target=numpy", "-n2", "-k", "rope_byte_reads")
    judged(tmp_path, *part, code=0, PYTHONUNBUFFERED="1", PYTEST_ADDOPTS=f"--report-dir {os.fspath(tmp_path)}/reports")
