"""Runs pytest and the command line as a user does: in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m command` in the project's folder, without a GPU, with PYTHONPATH and the like changed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}  # a worker's, perhaps
    changed = {**own, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200", **environment}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=ROOT, env=changed, capture_output=True, text=True, timeout=600
    )


def gate(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the gate, or a part of it that may be green; leaves no cache, and nothing of a failure unless told where."""
    chosen = args if any(arg.startswith("conformance/") for arg in args) else ("conformance/gate", *args)
    kept = tuple(each for option in ("--dump-dir", "--examples") if option not in args for each in (option, ""))
    here = () if any(arg.startswith("-n") for arg in args) else ("-n", "0")  # also what may take its process down
    return run("pytest", "-q", "-p", "no:cacheprovider", "--partial-ok", *here, *kept, *chosen, **environment)
