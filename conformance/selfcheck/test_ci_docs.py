"""docs/ci.md: what it names exists, and what it says to run runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from conformance.cli import app
from conformance.reports.waivers import read_waivers
from conformance.selfcheck.running import ROOT, run

DOC = (ROOT / "docs" / "ci.md").read_text()
PART = "conformance/gate/test_calls.py"


def blocks(language: str) -> list[str]:
    """The blocks of the document in a language."""
    return re.findall(rf"```{language}\n(.*?)```", DOC, re.DOTALL)


WORKFLOWS = {name: block for block in blocks("yaml") for name in re.findall(r"# \.github/workflows/(\S+?)[:\s]", block)}
JQ = re.findall(r"^jq (-\w )?'(.*)' reports/gate\.json$", "\n".join(blocks("sh")), re.MULTILINE)


def scripts() -> list[str]:
    """All lines of shell in the document, those of the workflows too."""
    steps = [
        step.get("run", "")
        for block in WORKFLOWS.values()
        for job in yaml.safe_load(block)["jobs"].values()
        for step in job["steps"]
    ]
    return [*blocks("sh"), *blocks("bash"), *steps]


def options(text: str) -> set[str]:
    """The long options that a text names."""
    return set(re.findall(r"(?<![\w-])--[a-z](?:[a-z-]*[a-z])?", text))


def commands() -> set[str]:
    return {str(command.name or command.callback.__name__) for command in app.registered_commands if command.callback}


def test_there_are_three_workflows_and_each_says_what_it_may_do_how_long_and_where() -> None:
    assert list(WORKFLOWS) == ["gate.yml", "gate-sharded.yml", "gate-nightly.yml"]
    for block in WORKFLOWS.values():
        workflow = yaml.safe_load(block)
        assert workflow["permissions"]["contents"] == "read" and True in workflow  # YAML 1.1 reads `on` so
        for job in workflow["jobs"].values():
            assert job["timeout-minutes"] and job["runs-on"]
            assert all("uses" in step or "run" in step for step in job["steps"])


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_keeps_what_a_red_run_leaves(name: str) -> None:
    steps = [step for job in yaml.safe_load(WORKFLOWS[name])["jobs"].values() for step in job["steps"]]
    uploads = [step for step in steps if "upload-artifact" in step.get("uses", "")]
    summaries = [step for step in steps if "GITHUB_STEP_SUMMARY" in step.get("run", "")]
    assert {"suite/reports", "suite/fixtures/dumps"} <= {step["with"]["path"] for step in uploads} and summaries
    assert all(step.get("if") == "always()" for step in [*uploads, *summaries])


def test_a_sharded_workflow_runs_each_shard_once() -> None:
    jobs = yaml.safe_load(WORKFLOWS["gate-sharded.yml"])["jobs"]
    shards = jobs["shard"]["strategy"]["matrix"]["shard"]
    (of,) = re.findall(r"--shard \$\{\{ matrix\.shard \}\}/(\d+)", WORKFLOWS["gate-sharded.yml"])
    assert shards == list(range(1, int(of) + 1)) and jobs["gate"]["needs"] == "shard"


def test_every_option_that_is_named_exists() -> None:
    of_merge = options("\n".join(re.findall(r"-m conformance merge(.*)", DOC)))
    assert of_merge and of_merge <= options(run("conformance", "merge", "--help", COLUMNS="300").stdout)
    named = options(DOC)
    assert {"--require", "--shard", "--waivers", "--minutes", "--examples", "--case-timeout"} <= named
    assert named <= options(run("pytest", "--help").stdout)


def test_every_command_and_make_target_that_is_named_exists() -> None:
    named = set(re.findall(r"python\d? -m conformance (\w+)", DOC))
    assert {"merge", "replay"} <= named <= commands()
    makefile = (ROOT / "Makefile").read_text()
    targets = {target for text in scripts() for target in re.findall(r"^make (\w+)", text, re.MULTILINE)}
    assert targets and all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_every_file_and_heading_that_is_named_exists() -> None:
    files = set(re.findall(r"conformance/[\w/]+\.(?:\w+\.)?\w+", DOC))
    assert "conformance/reports/gate.schema.json" in files
    assert {path for path in files if not (ROOT / path).exists()} == set()
    headings = {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^#+ (.*)$", DOC, re.M)}
    for link in re.findall(r"\]\(([^)]+)\)", DOC):
        path, _, anchor = link.partition("#")
        assert (ROOT / "docs" / path).exists() and (not anchor or anchor in headings), link


def test_the_example_of_waivers_is_read(tmp_path: Path) -> None:
    (example,) = blocks("toml")
    (tmp_path / "waivers.toml").write_text(example)
    first, second = read_waivers(tmp_path / "waivers.toml")
    assert (first.clause, first.test) == ("ATTEND", "*")
    assert (second.target, second.test) == ("cuda", "conformance/gate/test_device.py::*")


def script(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the page's script for any CI as it stands, where an earlier run has left a report."""
    (block,) = blocks("bash")
    (folder / "gate.sh").write_text(block)
    (folder / "reports").mkdir()
    (folder / "reports/gate.md").write_text("# Gate: conforms, as an earlier run said")
    told = {"PYTHON": sys.executable, "PART": PART, "WORKERS": "0", "DUMPS": "", "REPORTS": str(folder / "reports")}
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **told, **variables}
    return subprocess.run(
        ["bash", folder / "gate.sh"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize(
    ("variables", "code", "headings", "says"),
    [
        ({"TARGET": "numpy", "MORE": "--partial-ok"}, 0, ["# Gate: conforms"], "green"),
        ({"TARGET": "numpy"}, 6, ["# Gate: not judged"], "red, something asked for was not judged"),
        (
            {"TARGET": "numpy", "REQUIRE": "sm_100"},
            6,
            ["# Gate: not judged"],
            "red, something asked for was not judged",
        ),
        (
            {"TARGET": "nonsense"},
            4,
            ["# Gate: not judged"],
            "red, the run did not come to its end (pytest's exit code 4)",
        ),
    ],
)
def test_the_script_for_any_ci_ends_as_the_gate_does(
    variables: dict[str, str], code: int, headings: list[str], says: str, tmp_path: Path
) -> None:
    done = script(tmp_path, **variables)
    assert done.returncode == code, done.stdout + done.stderr
    assert re.findall(r"^# Gate: .*$", done.stdout, re.MULTILINE) == headings
    assert done.stdout.endswith(f"gate: {says}\n")


@pytest.fixture(scope="module")
def red(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder and the end of a run of the script on a target that differs."""
    folder = tmp_path_factory.mktemp("red")
    return folder, script(folder, TARGET="fault:starts-ignored", MORE="-k second_call", DUMPS=str(folder / "dumps"))


def test_the_script_for_any_ci_is_red_and_says_why(red: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    _, done = red
    assert done.returncode == 1 and "# Gate: differs\n" in done.stdout, done.stdout + done.stderr
    assert done.stdout.endswith("gate: red, something differs or crashed\n")


JQ_SAYS = (
    r"^false$",
    r"^a part of the gate \(--partial-ok\): ",
    r"^fault:starts-ignored: differs, \d+ cases on ",
    r"^fault:starts-ignored\tdiffers\tGATHER-\d+.*\tconformance/gate/test_calls\.py::test_a_second_call",
    r"dumps/none-GATHER-14-[0-9a-f]{8}\.safetensors$",
    r'"receipt": \{',
)


@pytest.mark.skipif(shutil.which("jq") is None, reason="there is no jq here: the page's questions were not asked")
def test_the_questions_to_gate_json_have_answers(red: tuple[Path, subprocess.CompletedProcess[str]]) -> None:
    assert len(JQ) == len(JQ_SAYS)
    for (option, question), says in zip(JQ, JQ_SAYS, strict=True):
        command = ["jq", *option.split(), question, red[0] / "reports/gate.json"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert re.search(says, done.stdout, re.MULTILINE) and not done.stderr, (question, done)
