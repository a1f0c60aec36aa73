"""The benchmark: what it gathers, what it writes, and its command line on a machine without a GPU."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from conformance.bench import command, results, table
from conformance.bench.rotation import calls_needed, sets_needed
from conformance.bench.run import Sizes
from conformance.bench.workloads import BYTES_A_ROW, Case, rows_to_check, workload
from conformance.generation import Random
from conformance.selfcheck.running import run
from conformance.selfcheck.test_bench_results import on_device, stored
from conformance.targets.models import NumpyTarget
from reference.gather import gather

SMALL = ("--rows", "500", "--repeats", "1")


class Wrong(NumpyTarget):
    """Gathers all rows but the last one rightly."""

    name = "wrong"

    def cp_gather_and_upconvert_nvfp4_kv_cache(
        self, src_cache: Any, dst: Any, block_table: Any, workspace_starts: Any, batch_size: int, seq_starts: Any = None
    ) -> None:
        super().cp_gather_and_upconvert_nvfp4_kv_cache(
            src_cache, dst, block_table, workspace_starts, batch_size, seq_starts
        )
        dst[-1, 7] ^= 1


@pytest.mark.parametrize("requests", [1, 16, 256])
@pytest.mark.parametrize("block_size", [1, 2, 64])
@pytest.mark.parametrize("rows", [1, 3000])
def test_a_workload_is_a_legal_gather(rows: int, block_size: int, requests: int) -> None:
    work = workload(Case(rows, block_size, requests))
    cache = Random(0).bytes(work.cache_shape)
    dst = gather(cache, work.block_table, work.workspace_starts, requests, rows, work.seq_starts)  # else it raises
    assert dst.shape == (rows, 576) and len(work.seq_starts) == requests


@pytest.mark.parametrize("requests", [16, 256])
def test_requests_are_of_uneven_lengths_and_begin_amid_a_block(requests: int) -> None:
    work = workload(Case(30_000, 64, requests))
    lengths = np.diff(np.append(work.workspace_starts, 30_000))
    assert lengths.sum() == 30_000 and lengths.min() > 0 and lengths.max() > 5 * lengths.min()
    assert (work.seq_starts % 64 != 0).all() and len(set(work.seq_starts // 64)) == 3


def test_the_cache_holds_the_blocks_that_rows_need_and_no_others() -> None:
    work = workload(Case(30_000, 64, 16))
    named = work.block_table[work.sources.request, work.sources.column]
    assert sorted(set(named)) == list(range(work.num_blocks))
    owners = {(block, request) for block, request in zip(named, work.sources.request, strict=True)}
    assert len(owners) == work.num_blocks


def test_the_rows_looked_at_are_the_ends_the_boundaries_and_some_hundred_others() -> None:
    work = workload(Case(30_000, 64, 16))
    rows = rows_to_check(work)
    assert {0, 29_999, *work.workspace_starts, *(work.workspace_starts[1:] - 1)} <= set(rows)
    assert 200 < len(rows) < 400 and (np.diff(rows) > 0).all()
    assert list(rows_to_check(workload(Case(1, 64, 1)))) == [0]


@pytest.mark.parametrize("l2", [6 << 20, 60 << 20, 126 << 20])
@pytest.mark.parametrize("rows", [1 << 16, 1 << 20, 1 << 22])
def test_sets_outgrow_the_l2_cache_and_calls_use_each_as_often(rows: int, l2: int) -> None:
    nbytes = rows * BYTES_A_ROW
    sets = sets_needed(nbytes, l2)
    calls = calls_needed(nbytes, sets)
    assert sets * nbytes >= max(600 << 20, 8 * l2) > (sets - 1) * nbytes
    assert calls % sets == 0 and calls >= (12 if rows == 1 << 16 else 2)


def test_a_place_has_sizes_of_its_own_unless_they_are_given() -> None:
    assert len(Sizes().on_device()) == 18 and Sizes().on_device()[0].rows == 1 << 22
    assert Sizes().on_cpu() == [Case(65_536, 64, 16)]
    assert Sizes((8, 9), requests=(3,)).on_cpu() == [Case(9, 64, 3), Case(8, 64, 3)]


def test_a_plot_without_matplotlib_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(typer.BadParameter, match="pip install"):
        command.Files(None, tmp_path / "a.svg", None).check()


def test_the_command_line_benches_a_target_against_another(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    done = run("conformance", "bench", *SMALL, "--target", "numpy", "--target", "torch", "--json", str(path))
    assert done.returncode == 0 and "rows/s" in done.stdout and " 1.00 " in done.stdout, done.stdout
    found = results.read(path)
    assert [measured.target for measured in found.measurements] == ["numpy", "torch"]
    assert found.machine["device"] is None and found.machine["numpy"] == np.__version__
    assert all(measured.rows == 500 and measured.microseconds for measured in found.measurements)


def test_a_target_that_gathers_wrong_bits_has_no_speed_and_fails_the_run() -> None:
    done = run("conformance", "bench", *SMALL, "--target", f"{__name__}:Wrong")
    assert done.returncode == 1 and "rows looked" in done.stdout and "wall clock" not in done.stdout, done.stdout


def test_a_target_that_cannot_run_here_is_named_with_the_reason() -> None:
    done = run("conformance", "bench", *SMALL, "--target", "numpy", "--target", "cuda")
    assert done.returncode == 0 and "not judged: " in done.stdout and "wall clock" in done.stdout, done.stdout


def test_a_stored_result_is_shown_and_drawn_again(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    fine = replace(stored(), measurements=[on_device(1 << 20, 400.0)])
    results.write(fine, tmp_path / "r.json")
    files = ("--markdown", str(tmp_path / "r.md"), "--plot", str(tmp_path / "r.svg"))
    done = run("conformance", "bench", "--from", str(tmp_path / "r.json"), *files)
    assert done.returncode == 0 and "0.950" in done.stdout
    assert (tmp_path / "r.md").read_text() == table.as_markdown(fine) and (tmp_path / "r.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rows", "0"], "found 0; allowed are 1 to"),
        (["--block-size", "64", "--block-size", "70000"], "found 70000; allowed are 1 to"),
        (["--repeats", "0"], "--repeats"),
        (["--target", "no"], "allowed are auto, numpy"),
        (["--json", "no/such/r.json"], "there is no folder"),
        (["--plot", "r.pdf"], "allowed are .svg and .png"),
        (["--plot", "r.svg", "--target", "numpy"], "nothing to draw"),
        (["--from", "no.json"], "--from"),
        (["--from", "README.md"], "no JSON"),
        (["--from", "README.md", "--rows", "5"], "measures nothing"),
    ],
)
def test_bad_arguments_are_a_usage_error_before_anything_is_measured(arguments: list[str], said: str) -> None:
    done = run("conformance", "bench", *arguments, COLUMNS="400")
    assert done.returncode == 2 and "Traceback" not in done.stderr and said in done.stderr, done.stderr
    assert done.stdout == ""
