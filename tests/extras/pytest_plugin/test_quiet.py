"""Beside a test-suite that does not use it the plugin is not noticed, and nothing that it starts outlives a session."""

import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from extras.pytest_plugin.suite import command, environment, outcomes, processes, pytest_in

UNUSED = """
import sys


def test_nothing_is_imported():
    ours = {name for name in sys.modules if name.partition(".")[0] in ("harness", "impls", "torch", "pandas", "numpy")}
    package = "harness.extras.pytest_plugin"
    assert ours <= {"harness", "harness.extras", package, f"{package}.plugin"}
"""
# These import what they like.
OTHERS = ("benchmark", "hypothesispytest", "hydra_pytest", "xdist")
LONG = """
import time


def test_long(scaling):
    assert scaling("rnn.elman", over=(4, 8, 16), d_model=8).flops.follows("4nd²")
    open("started", "w").close()
    time.sleep(60)
"""


def test_nothing_is_imported_and_nothing_said_where_it_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(UNUSED)
    without_others = [argument for name in OTHERS for argument in ("-p", f"no:{name}")]
    said = pytest_in(tmp_path, "-v", *without_others)
    assert outcomes(said) == {"test_nothing_is_imported": "passed"}
    lines = [line for line in said.splitlines() if "scaling" in line or "harness" in line]
    assert [line.partition(":")[0] for line in lines] == ["plugins"]  # pytest's own list of what is installed


def test_an_interrupted_session_leaves_no_process_behind(tmp_path: Path) -> None:
    (tmp_path / "test_theirs.py").write_text(LONG)
    mark = uuid.uuid4().hex
    with subprocess.Popen(command(tmp_path), cwd=tmp_path, env=environment(mark), stdout=subprocess.DEVNULL) as run:
        wait_until((tmp_path / "started").exists)
        assert len(processes(mark)) == 3  # pytest, the fork server and its supervisor
        run.send_signal(signal.SIGINT)
        run.wait(30)
    wait_until(lambda: processes(mark) == [])


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)
