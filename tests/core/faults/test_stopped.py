"""Processes of a sweep are stopped from outside. The sweep continues or ends, and no process remains."""

import signal
import time
from pathlib import Path

import pandas as pd
import psutil
import pytest
from core.faults.driver import CASES, CHAIN, GRID, Driver, becomes_true, environment, lines_of, nothing_remains

# How long the driver may take to end after a signal.
SOON_S = 10.0
# Starts a command with SIGINT ignored, as a shell starts a background job.
WITHOUT_SIGINT = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")


def wait_for(driver: Driver, name: str) -> psutil.Process:
    found: list[psutil.Process] = []
    assert becomes_true(lambda: found.extend(filter(None, [driver.target(name)])) or bool(found) or not driver.runs())
    return found[0]


def stop(driver: Driver, *names: str) -> None:
    for process in [wait_for(driver, name) for name in names]:
        process.suspend()


def with_temporary(where: Path) -> dict[str, str]:
    (where / "tmp").mkdir()
    return {**environment(str(where)), "TMPDIR": str(where / "tmp")}


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("while torch is imported", signal.SIGTERM),
        ("in a trial", signal.SIGINT),
        ("in a trial", signal.SIGTERM),
        ("in a trial", signal.SIGKILL),
    ],
)
def test_the_driver_ends_soon_and_nothing_remains(moment: str, number: signal.Signals, tmp_path: Path) -> None:
    """No process that a trial has started remains, even in its own session, and no temporary directory."""
    settings = [*GRID[:1], "impl=core.faults.layers:ForksChildrenAndSleeps", *GRID[2:]]
    with Driver(tmp_path, *settings, mark=str(tmp_path), env=with_temporary(tmp_path)) as driver:
        if moment == "in a trial":
            assert becomes_true(lambda: len(driver.children("trial")) == 3)
        stop(driver, "supervisor", "parent")
        driver.process.send_signal(number)
        status = driver.ended(SOON_S)
        assert status == (-number if number == signal.SIGKILL else 130)
        assert driver.err.startswith("" if number == signal.SIGKILL else "harness: interrupted")
        assert driver.err.count("\n") == (number != signal.SIGKILL)
    assert nothing_remains(str(tmp_path))
    assert becomes_true(lambda: list((tmp_path / "tmp").iterdir()) == [])


def test_one_trial_is_lost_with_a_stopped_parent_and_the_sweep_goes_on(tmp_path: Path) -> None:
    with Driver(tmp_path, *GRID, mark=str(tmp_path)) as driver:
        assert becomes_true(lambda: len(lines_of(tmp_path / "run")) > 2)
        stop(driver, "supervisor", "parent")
        assert (driver.ended(), driver.err) == (3, "")
    summary = pd.read_csv(tmp_path / "run" / "summary.csv")
    assert sorted(summary.status) == ["killed", *["ok"] * (CASES - 1)]
    assert set(summary.reason.dropna()) == {"the fork server stopped answering"}
    assert nothing_remains(str(tmp_path))


def test_a_parent_that_is_stopped_while_torch_is_imported_is_replaced(tmp_path: Path) -> None:
    with Driver(tmp_path, *GRID, mark=str(tmp_path)) as driver:
        stop(driver, "parent")
        assert (driver.ended(), driver.err) == (0, "")
    assert nothing_remains(str(tmp_path))


def test_a_sweep_that_is_suspended_for_a_moment_loses_nothing(tmp_path: Path) -> None:
    with Driver(tmp_path, *GRID, mark=str(tmp_path)) as driver:
        assert becomes_true(lambda: len(lines_of(tmp_path / "run")) > 2)
        processes = [wait_for(driver, name) for name in CHAIN[:-1]]
        for process in processes:
            process.suspend()
        time.sleep(0.5)
        for process in processes:
            process.resume()
        assert (driver.ended(), driver.err) == (0, "")
    assert nothing_remains(str(tmp_path))


def test_started_with_sigint_ignored_it_ignores_that_and_ends_by_sigterm(tmp_path: Path) -> None:
    with Driver(tmp_path, *GRID, mark=str(tmp_path), within=WITHOUT_SIGINT) as driver:
        assert becomes_true(lambda: len(lines_of(tmp_path / "run")) > 0)
        driver.process.send_signal(signal.SIGINT)
        before = len(lines_of(tmp_path / "run"))
        assert becomes_true(lambda: len(lines_of(tmp_path / "run")) > before)
        driver.process.send_signal(signal.SIGTERM)
        assert driver.ended(SOON_S) == 130
    assert nothing_remains(str(tmp_path))


def test_a_fork_server_that_is_interrupted_while_it_starts_goes_on(tmp_path: Path) -> None:
    with Driver(tmp_path, *GRID, mark=str(tmp_path)) as driver:
        wait_for(driver, "parent").send_signal(signal.SIGINT)
        assert (driver.ended(), driver.err) == (0, "")
    assert nothing_remains(str(tmp_path))
