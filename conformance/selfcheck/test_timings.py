"""The table of how long the commands take."""

import sys
from pathlib import Path

import pytest

from conformance.bench.timings import DOCS, Timing, keep, main, measure, read, table, write


def test_a_command_is_timed_and_one_that_fails_is_not() -> None:
    busy = "import time\nwhile time.process_time() < 0.2: pass\ntime.sleep(0.2)"
    timing = measure("busy", "after", [sys.executable, "-c", busy])
    assert timing.wall >= 0.4 and timing.cpu >= 0.2 and "CPUs" in timing.machine
    with pytest.raises(Exception, match="non-zero exit status 3"):
        measure("fails", "after", [sys.executable, "-c", "raise SystemExit(3)"])


def test_a_timing_takes_the_place_of_an_older_one_and_the_table_has_a_row_for_each_command(tmp_path: Path) -> None:
    (tmp_path / "coverage.md").write_text("a\n<!-- timings -->\nold\n<!-- end of timings -->\nb\n")
    for wall, when in ((9.0, "before"), (8.0, "before"), (2.4, "after")):
        keep(Timing("make gate", when, wall, 2 * wall, "m, 2 CPUs", "2026-12-01"), tmp_path)
    write(tmp_path)
    rows = "| make gate | m, 2 CPUs | 8 s, 16 s | 2 s, 5 s |"
    assert (tmp_path / "coverage.md").read_text().splitlines()[-4:] == [rows, "", "<!-- end of timings -->", "b"]


def test_the_table_in_docs_is_that_of_the_timings() -> None:
    assert "\n".join(table(read())) in (DOCS / "coverage.md").read_text()


def test_another_command_line_is_told_what_there_is() -> None:
    with pytest.raises(SystemExit, match="measure LABEL WHEN COMMAND"):
        main(["mesure"])
