"""Runs pytest and the command line as a user does: in a process of their own.

Most are forks of a process which has imported what these import, which takes longer than many a run.
"""

import atexit
import ctypes
import gc
import importlib
import os
import runpy
import signal
import subprocess
import sys
import weakref
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[2]
SECONDS = 600

AT_START = ("NVFP4_", "PYTHON", "LD_", "OMP_", "OPENBLAS_", "MKL_", "MALLOC_", "HYPOTHESIS_", "CUDA_")
"""How the names begin of what Python and libraries read once, early: a fork would not know of it."""

REWRITTEN = ("_hypothesis_globals", "hypothesis")
"""What pytest imports, as it imports tests, with asserts of its own; it would warn if it found another import's."""

IMPORTED = (
    *("numpy", "ml_dtypes", "torch", "safetensors.numpy", "jsonschema", "packaging.requirements"),
    *("rich.console", "rich.table", "typer", "pytest", "execnet"),  # xdist keeps the sys.path of its import
    *("hypothesis", "hypothesis.database", "hypothesis.strategies", "hypothesis.extra.numpy"),
)


FLOORS = "reference", "kernels", "fixtures", "conformance"
FRESH = "conformance/gate", "conformance/running", "conformance/selfcheck", "conformance/__main__.py"
"""What of the project each run imports itself: pytest rewrites it, or it does something when it is imported."""


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m command` in the project's folder, without a GPU, with PYTHONPATH and the like changed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}  # a worker's, perhaps
    changed = {**own, "CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200", **environment}
    line = [sys.executable, "-m", *command]
    if sys.platform != "linux" or any(name.startswith(AT_START) for name in environment.keys() - {"PYTHONPATH"}):
        return subprocess.run(line, cwd=ROOT, env=changed, capture_output=True, text=True, timeout=SECONDS)
    with TemporaryDirectory() as folder:
        files = Path(folder, "stdout"), Path(folder, "stderr")
        server = _server()
        server.send((command, changed, files))
        child: int = server.recv()
        try:
            if not server.poll(SECONDS):
                raise subprocess.TimeoutExpired(line, SECONDS, *(file.read_bytes() for file in files))
        except BaseException:
            os.kill(child, signal.SIGKILL)
            server.recv()
            raise
        return subprocess.CompletedProcess(line, server.recv(), *(file.read_text() for file in files))


def gate(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the gate, or a part of it that may be green; leaves no cache, and nothing of a failure unless told where."""
    chosen = args if any(arg.startswith("conformance/") for arg in args) else ("conformance/gate", *args)
    kept = tuple(each for option in ("--dump-dir", "--examples") if option not in args for each in (option, ""))
    here = () if any(arg.startswith("-n") for arg in args) else ("-n", "0")  # also what may take its process down
    return run("pytest", "-q", "-p", "no:cacheprovider", "--partial-ok", *here, *kept, *chosen, **environment)


@cache
def _server() -> "Connection[Any, Any]":
    """Start this file as a process, which ends when this one does."""
    from conformance.machine import THREADS  # the server imports nothing of the project

    here, there = Pipe()
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))}
    alone = own | dict.fromkeys(THREADS, "1") | {"CUDA_VISIBLE_DEVICES": ""}  # a fork has no thread but its first
    line, quiet = [sys.executable, __file__, str(there.fileno())], subprocess.DEVNULL
    with there:
        server = subprocess.Popen(line, cwd=ROOT, env=alone, stdin=quiet, stdout=quiet, pass_fds=[there.fileno()])
    atexit.register(server.wait)
    atexit.register(here.close)
    return here


def _serve(asked: "Connection[Any, Any]") -> None:
    """Fork for each command, and say the child's number, then its exit code; in a child, run the command and return."""
    del sys.path[0]  # this folder
    codes: list[int] = []
    atexit.register(_leave, codes)  # before what others register: it is the last to be called
    _import()
    while True:
        try:
            command, environment, files = asked.recv()
        except EOFError:
            codes.append(0)
            return
        if not (child := os.fork()):
            break
        asked.send(child)
        asked.send(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    asked.close()
    _become(command, environment, files, codes)


def _import() -> None:
    from _pytest.assertion import install_importhook
    from _pytest.config import get_config

    hook = install_importhook(get_config())
    hook.mark_rewrite(*REWRITTEN)
    for module in IMPORTED:
        with suppress(ImportError):  # torch may not be there
            importlib.import_module(module)
    sys.meta_path.remove(hook)
    sys.path.insert(0, str(ROOT))
    for module in _modules():
        importlib.import_module(module)
    del sys.path[0]
    for finalizer in weakref.finalize._registry:  # type: ignore[attr-defined]
        finalizer.atexit = False  # torch's, of what ends with the process in any case, take longer than a fork
    gc.freeze()  # nor does a child look through it


def _modules() -> Iterator[str]:
    """Yield the modules of the project that a fork may share, by name."""
    for floor in FLOORS:
        for path in sorted((ROOT / floor).rglob("*.py")):
            name = path.relative_to(ROOT)
            if not str(name).startswith(FRESH):
                yield ".".join(name.with_suffix("").parts).removesuffix(".__init__")


def _become(command: tuple[str, ...], environment: dict[str, str], files: tuple[Path, Path], codes: list[int]) -> None:
    """Do as `python -m` does, and keep the code of an exit that says nothing else."""
    for number, file in enumerate(files, start=1):
        with file.open("ab") as opened:
            os.dup2(opened.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = list(command)
    folders = [os.path.abspath(each) for each in environment.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:0] = [os.getcwd(), *folders]
    try:
        runpy.run_module(command[0], run_name="__main__", alter_sys=True)
        codes.append(0)
    except SystemExit as end:
        codes += [end.code or 0] if isinstance(end.code, int | None) else []
        raise


def _leave(codes: list[int]) -> None:
    """Exit at once: to take all modules down would take longer than many a run."""
    for code in codes:
        sys.stdout.flush()
        sys.stderr.flush()
        ctypes.CDLL(None).fflush(None)  # what C has not written yet
        os._exit(code & 0xFF)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])))
