"""A full disk or a read-only directory gives one line on stderr. The sweep can be continued afterwards."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from core.faults.disks import mount, mounted, obey_permissions
from core.faults.driver import (
    CASES,
    GRID,
    ROWS,
    Driver,
    becomes_true,
    environment,
    lines_of,
    nothing_remains,
    sweep_to_its_end,
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB. Only root can mount it."""
    place = tmp_path / "disk"
    place.mkdir()
    with mounted(place, "1m") as done:
        if done.returncode != 0:
            pytest.skip(f"no small file system can be mounted here: {done.stderr.strip()}")
        yield place


def is_one_line(said: str, *parts: str) -> None:
    assert said.startswith("harness: "), said
    assert said.count("\n") == 1, said
    for part in parts:
        assert part in said


def is_whole(run: Path) -> None:
    summary = pd.read_csv(run / "summary.csv")
    assert len(summary) == CASES
    assert (summary.status == "ok").all()
    assert len({line for line in lines_of(run) if '"verify"' not in line}) == ROWS - CASES


def test_a_full_disk_ends_a_sweep_with_one_line_wherever_it_is_and_it_goes_on_once_there_is_room(
    small_disk: Path,
) -> None:
    mark = str(small_disk)
    run, ballast = small_disk / "run", small_disk / "ballast"
    # Full during the measurement: it has room for the configuration and for some rows.
    ballast.write_bytes(bytes(2**20 - 2**15))
    status, said = sweep_to_its_end(small_disk, *GRID, mark=mark)
    assert status == 2
    is_one_line(said, "No space left on device", "run/rows/0001-")
    before = lines_of(run)
    assert 0 < len(before) < ROWS
    # Full during the report, which takes some megabytes.
    ballast.unlink()
    status, said = sweep_to_its_end(small_disk, *GRID, mark=mark)
    assert status == 2
    is_one_line(said, "run: No space left on device: all that was measured is in its rows: make room")
    assert mount("-o", "remount,size=32m", str(small_disk)).returncode == 0
    assert sweep_to_its_end(small_disk, *GRID, mark=mark) == (0, "")
    assert lines_of(run)[: len(before)] == before
    is_whole(run)
    assert nothing_remains(mark)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_sweep_that_cannot_say_how_it_goes_goes_on_and_says_so_at_its_end(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        status, said = sweep_to_its_end(tmp_path, *GRID, mark=str(tmp_path), stdout=full)
    assert status == 2
    is_one_line(said, "standard output cannot be written to (No space left on device)", "and nothing else")
    is_whole(tmp_path / "run")


def test_a_directory_that_turns_read_only_meanwhile_ends_it_likewise(tmp_path: Path) -> None:
    run, mark = tmp_path / "run", str(tmp_path)
    with Driver(tmp_path, *GRID, mark=mark, preexec_fn=obey_permissions) as driver:
        assert becomes_true(lambda: len(lines_of(run)) > 2)
        for directory in (run / "rows", run):
            directory.chmod(0o555)
        assert driver.ended() == 2
        is_one_line(driver.err, "run/report.html: Permission denied")
    # Files that were open are completed.
    before = lines_of(run)
    assert len(before) == ROWS
    for directory in (run, run / "rows"):
        directory.chmod(0o755)
    with Driver(tmp_path, *GRID, mark=mark, preexec_fn=obey_permissions) as driver:
        assert (driver.ended(), driver.err) == (0, "")
        assert "has not come to an end" not in driver.out  # the lock file remained, but the lock was released
    assert lines_of(run)[:ROWS] == before
    is_whole(run)
    assert nothing_remains(mark)


def test_a_layer_that_fills_its_temporary_directory_is_an_error_and_its_files_are_removed(
    small_disk: Path, tmp_path: Path
) -> None:
    layers = "impl=core.faults.layers:FillsItsTemporaryDirectory,core.faults.layers:Good"
    env = {**environment(str(tmp_path)), "TMPDIR": str(small_disk)}
    status, said = sweep_to_its_end(tmp_path, *GRID[:1], layers, *GRID[2:], mark=str(tmp_path), env=env)
    assert (status, said) == (3, "")
    summary = pd.read_csv(tmp_path / "run" / "summary.csv").set_index("impl")
    assert set(summary.status["core.faults.layers:Good"]) == {"ok"}
    assert set(summary.status["core.faults.layers:FillsItsTemporaryDirectory"]) == {"error"}
    assert summary.reason.dropna().str.contains("No space left on device").all()
    assert list(small_disk.iterdir()) == []


def test_a_file_system_that_is_read_only_is_refused_before_anything_is_measured(small_disk: Path) -> None:
    where, mark = small_disk.parent, str(small_disk)
    with Driver(where, *GRID[:-1], "out=disk/run", mark=mark) as driver:
        assert becomes_true(lambda: len(lines_of(small_disk / "run")) > 2)
        driver.process.kill()
        driver.ended()
    before = lines_of(small_disk / "run")
    assert mount("-o", "remount,ro", str(small_disk)).returncode == 0
    status, said = sweep_to_its_end(where, *GRID[:-1], "out=disk/run", mark=mark)
    assert status == 2
    is_one_line(said, "out=disk/run cannot be written to (Read-only file system): nothing was measured")
    assert lines_of(small_disk / "run") == before
    assert nothing_remains(mark)
