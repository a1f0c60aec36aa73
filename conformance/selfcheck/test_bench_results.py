"""What a benchmark found, as numbers, JSON, tables and a picture."""

import json
from pathlib import Path
from typing import Any

import pytest

from conformance.bench import plot, results, table
from conformance.bench.facts import read_answer
from conformance.bench.results import BadResult, Measurement, Result, TargetNote

DEVICE = {
    "name": "NVIDIA H200", "sm": "sm_90", "memory_bytes": 150 << 30, "l2_bytes": 60 << 20, "driver": "580.1",
    "driver_cuda": "13.0", "cuda_runtime": "13.0", "nvrtc": "13.0",
    "sm_mhz": 1980, "sm_max_mhz": 1980, "memory_mhz": None, "memory_max_mhz": 3201,
}  # fmt: skip
MACHINE = {
    "python": "3.12.1", "numpy": "2.4.6", "torch": None, "cupy": "14.2.0", "system": "Linux x86_64",
    "processor": "some processor", "cores": 16, "device": DEVICE,
}  # fmt: skip


def on_device(rows: int, microseconds: float | None, **more: Any) -> Measurement:
    ended = ("wrong bits", "1 of 9 rows", "") if microseconds is None else ("measured", "", "graph")
    other = {"copy_microseconds": 380.0, "plain_microseconds": 1200.0}
    return Measurement("cuda", "device", rows, 64, 16, *ended, microseconds, **{**other, **more})


def stored() -> Result:
    on_cpu = Measurement("numpy", "cpu", 65_536, 64, 16, "measured", "", "wall clock", 5e4, first_microseconds=5e4)
    targets = [TargetNote("cuda", "NVIDIA H200, sm_90", None, {"launches": 7}), TargetNote("x", "", "no [x] here")]
    measured = [on_device(1 << 20, 400.0), on_device(1 << 16, 30.0, copy_microseconds=27.0), on_device(1 << 22, None)]
    return Result("2026-11-29T12:00:00+00:00", MACHINE, targets, [*measured, on_cpu])


def test_ratios_compare_times_and_speeds_count_1504_bytes_a_row() -> None:
    found = on_device(1 << 20, 400.0).derived()
    assert found["ratio_to_copy"] == 0.95 and found["ratio_to_plain"] == 3.0 and found["ratio_to_first"] is None
    assert found["gb_per_s"] == (1 << 20) * 1504 / 400e-6 / 1e9
    assert set(on_device(1 << 20, None).derived().values()) == {None}


def test_a_result_survives_json(tmp_path: Path) -> None:
    results.write(stored(), tmp_path / "r.json")
    assert results.read(tmp_path / "r.json") == stored()
    written = json.loads((tmp_path / "r.json").read_text())
    assert written["schema"] == 1 and written["measurements"][0]["ratio_to_copy"] == 0.95


def test_a_result_of_another_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text('{"schema": 2}')
    with pytest.raises(BadResult, match="schema is 2; allowed is 1"):
        results.read(tmp_path / "r.json")


def test_what_nvidia_smi_does_not_know_is_none() -> None:
    known = read_answer("580.65.06, 1980, 1980, [N/A], 3201\n")
    assert known == {
        "driver": "580.65.06", "sm_mhz": 1980, "sm_max_mhz": 1980, "memory_mhz": None, "memory_max_mhz": 3201
    }  # fmt: skip
    assert set(read_answer("").values()) == {None}


def test_markdown_shows_facts_speeds_and_verdicts() -> None:
    text = table.as_markdown(stored())
    assert "- device: NVIDIA H200, sm_90, 153,600 MiB, L2 60 MiB\n" in text
    assert "memory unknown of 3201 MHz" in text and "- x: not judged: no [x] here\n" in text
    assert "| cuda | 1,048,576 | 64 | 16 | 400.0 | 3,943 | 0.950 | 3.00 | graph |\n" in text
    assert "| cuda | 4,194,304 | 64 | 16 |  |  |  |  | wrong bits: 1 of 9 rows |\n" in text
    assert "| numpy | 65,536 | 64 | 16 | 1,310,720 | 1.00 | wall clock |\n" in text


def test_a_line_of_the_plot_has_the_ratios_by_rows() -> None:
    assert plot.lines_of(stored()) == {("cuda", 64, 16): [(1 << 16, 0.9), (1 << 20, 0.95)]}
    assert [plot.rows_label(rows) for rows in (1000, 1 << 16, 1 << 20, 1 << 22)] == ["1,000", "65,536", "1 M", "4 M"]


def test_the_same_result_gives_the_same_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("a.svg", "b.svg", "c.png"):
        plot.draw(stored(), tmp_path / name)
    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    for label in ("NVIDIA H200, 2026-11-29", "65,536", "1 M", "goal 0.85", "goal 0.95", "block size 64"):
        assert label in text
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
