"""Whoever of a sweep's processes is ended, and whenever: going on gives what would have been measured anyway.

A few moments of each kind; `tests/bench/bench_faults.py` takes more of them.
"""

import os
import random
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from faults.disturbance import SIGNALS, TARGETS, disturb, random_blow
from faults.driver import DEADLINE_S, GRID, ROWS

from harness.cli import main
from harness.sweep.outcome import failed
from harness.sweep.runner import Runner

# A trial whose parent is killed before the trial has asked to end with it.
ORPHAN = """
import os, signal, time
from harness.trial import isolate
isolate.adopt_orphans()
parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.01)
    isolate.enter(None)
    time.sleep(100)
os.kill(parent, signal.SIGKILL)
"""


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_driver_parent_and_trial_are_ended_and_every_case_is_there_once(number: signal.Signals, tmp_path: Path) -> None:
    draw = random.Random(number)
    # The driver comes last, as the sweep is over then.
    targets = (*draw.sample(TARGETS[1:], 2), "driver")
    blows = [random_blow(draw, number, target, ROWS // len(TARGETS)) for target in targets]
    left = disturb(tmp_path, [blows], mark=str(tmp_path))
    assert left.wrong == []
    assert left.arrived > 0  # the others found a sweep that had ended
    assert left.ends[-1] == 0


def test_a_machine_that_cannot_be_described_is_no_other_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """The run would be told from all others for good by what it says of torch."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Runner, "run", lambda self, purpose, case=None: failed("killed", "by SIGKILL"))
    assert main(["sweep", *GRID]) == 2
    said = capsys.readouterr().err
    assert said == "harness: the machine could not be described (killed: by SIGKILL): try again\n"
    assert list(tmp_path.iterdir()) == []


def test_a_trial_that_comes_too_late_to_end_with_its_parent_ends_at_once() -> None:
    reader, writer = os.pipe()
    with subprocess.Popen([sys.executable, "-c", ORPHAN], pass_fds=[writer]):
        os.close(writer)
        # The pipe is at its end once every process has gone that holds it.
        assert select.select([reader], [], [], DEADLINE_S)[0]
    os.close(reader)
