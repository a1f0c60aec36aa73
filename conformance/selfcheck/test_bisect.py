"""docs/replay.md's ways to find what broke: a bisect over commits, and a look at each of some releases."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.faults.mutants import MUTANTS
from conformance.selfcheck.running import ROOT, gate
from kernels.sources import copy_sources

DOC = (ROOT / "docs" / "replay.md").read_text()
FAULTY = next(mutant for mutant in MUTANTS if mutant.name == "tuned: start rounded down to its block")


def block_after(heading: str) -> str:
    """The first shell block of a section of the document."""
    return re.search(rf"## {heading}\n.*?```sh\n(.*?)```", DOC, re.DOTALL)[1]  # type: ignore[index]


def script(path: Path, text: str) -> None:
    """A program of bash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


def shell(block: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a block as it stands, with `python` being this interpreter."""
    script(folder.parent / "bin" / "python", f'exec "{sys.executable}" "$@"')
    path = f"{folder.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "GIT_CONFIG_GLOBAL": os.devnull, **variables}
    return subprocess.run(
        ["bash", "-e", "-c", block], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the gate left of the faulty kernel, the smallest case of it."""
    folder = tmp_path_factory.mktemp("red")
    target = f"{FAULTY.target}:{FAULTY.write(folder / 'sources')}"
    gate("conformance/gate/test_geometry.py", "-k", "clamped", "--target", target, "--dump-dir", str(folder / "dumps"))
    return next((folder / "dumps").glob("*-small.safetensors"))


def git(folder: Path, *command: str) -> str:
    """git, as somebody whose name does not matter."""
    who = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", "init.defaultBranch=main")
    return subprocess.run(["git", *who, *command], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here: the bisect did not run")
def test_a_bisect_finds_the_commit_that_broke_a_kernel(fixture: Path, tmp_path: Path) -> None:
    repository = tmp_path / "kernels"
    repository.mkdir()
    git(repository, "init", "-q")
    copy_sources(repository)
    source = repository / FAULTY.file
    for number in range(6):
        text = source.read_text() + f"// change {number}\n"
        source.write_text(text.replace(FAULTY.old, FAULTY.new) if number == 3 else text)
        git(repository, "add", "-A")
        git(repository, "commit", "-q", "-m", f"change {number}")
    commits = git(repository, "log", "--reverse", "--format=%H").split()
    done = shell(block_after("Bisecting commits"), repository, GOOD=commits[0], BAD=commits[5], FIXTURE=str(fixture))
    assert f"{commits[3]} is the first bad commit" in done.stdout, done.stdout + done.stderr


def test_a_look_at_each_release_says_which_are_bad(fixture: Path, tmp_path: Path) -> None:
    releases = tmp_path / "releases"
    for name, target in (("1.0", "numpy"), ("2.0", "fault:start-rounded-down"), ("3.0", "no-such-target")):
        instead = f'exec "{sys.executable}" "${{@:1:$#-1}}" {target}'  # of vllm, which is not installed here
        script(releases / f"venv-{name}" / "bin" / "python", instead)
    done = shell(block_after("Looking at releases"), releases, FIXTURE=str(fixture))
    words = [line for line in done.stdout.splitlines() if line.startswith("venv-")]
    assert words == ["venv-1.0: conforms", "venv-2.0: differs", "venv-3.0: cannot be judged"], done.stdout + done.stderr
