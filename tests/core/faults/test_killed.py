"""Signals end the processes of a sweep at random moments. The same command continues the sweep.

`benchmarks/bench_faults.py` tries more moments.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from core.faults.driver import DEADLINE_S, GRID, becomes_true
from core.faults.walk import walk

from harness.cli.commands import main
from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.run.outcome import TrialOutcome

# A trial whose parent is killed before the trial has arranged to end with it.
ORPHAN = """
import os, signal, time
from harness.core.trial import sandbox
sandbox.adopt_orphans()
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.01)
    sandbox.enter_sandbox(None)
    time.sleep(100)
os.kill(parent, signal.SIGKILL)
"""


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_driver_fork_server_and_trial_are_ended_and_every_case_is_measured_once(name: str, tmp_path: Path) -> None:
    # The driver comes last, because that ends the sweep.
    walked = walk(tmp_path, [[f"{name} to the {process}" for process in ("fork server", "trial", "driver")]])
    assert walked.wrong == []
    assert walked.sweeps[0].arrived  # later signals may find that the sweep has ended
    assert walked.sweeps[-1].end == 0


def test_a_trial_that_is_killed_at_any_moment_is_measured_or_killed_and_the_next_one_is_measured(
    runner: Executor, case: Case
) -> None:
    assert runner.run("time", case).status == "ok"
    found = set()
    for delay_s in np.linspace(0, 0.1, 20):
        killer = threading.Thread(target=_kill_trial, args=(runner, delay_s))
        killer.start()
        outcome = runner.run("time", case)
        killer.join()
        found.add((outcome.status, outcome.reason))
    assert ("killed", "by SIGKILL") in found
    assert found <= {("killed", "by SIGKILL"), ("ok", None)}
    assert runner.run("time", case).status == "ok"


def _kill_trial(runner: Executor, delay_s: float) -> None:
    (parent,) = runner._servers.values()
    assert becomes_true(lambda: parent.trial is not None)
    trial = parent.trial
    time.sleep(delay_s)
    if trial is not None and parent.trial == trial:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.kill(trial, signal.SIGKILL)


def test_a_machine_that_cannot_be_described_is_no_other_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """The facts about torch identify a run's machine forever, so the sweep must not start without them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Executor, "run", lambda *_: TrialOutcome("killed", "by SIGKILL"))
    assert main(["sweep", *GRID]) == 2
    said = capsys.readouterr().err
    assert said == "harness: the machine could not be described (killed: by SIGKILL): try again\n"
    assert list(tmp_path.iterdir()) == []


def test_a_trial_that_comes_too_late_to_end_with_its_parent_ends_at_once() -> None:
    reader, writer = os.pipe()
    with subprocess.Popen([sys.executable, "-c", ORPHAN], pass_fds=[writer]):
        os.close(writer)
        # The pipe ends once every process that holds it has exited.
        assert select.select([reader], [], [], DEADLINE_S)[0]
    os.close(reader)
