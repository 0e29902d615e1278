"""The driver waits for its fork server and for trials only so long, whatever these do."""

import os
import signal
import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from core.faults.driver import becomes_true

from harness.core.run import fork_client
from harness.core.run.fork_client import ForkServer, NoAnswer

# Processes in the place of fork servers. They end after a while, so that a wait without a limit ends too.
SILENT = "import time; time.sleep(4)"
STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[3] + "/ignores", "w").close()
time.sleep(4)
"""


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_IMPORTS_S", "_ANSWER_S", "_CLOSE_S", "_NUDGE_S"):
        monkeypatch.setattr(fork_client, limit, 0.2)


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServer]:
    monkeypatch.setattr(fork_client, "_BOOT", SILENT)
    parent = ForkServer()
    yield parent
    parent.close()


def test_a_fork_server_that_never_answers_is_given_up(silent: ForkServer) -> None:
    with pytest.raises(NoAnswer):
        silent.wait_until_ready()


def test_a_fork_server_that_takes_no_requests_is_given_up(silent: ForkServer) -> None:
    def send() -> None:
        for _ in range(100):
            silent._send({"case": "x" * 2**15}, [])

    with pytest.raises(NoAnswer):
        send()


def test_a_supervisor_that_does_not_end_when_asked_is_killed_and_its_directory_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fork_client, "_BOOT", STUBBORN)
    parent = ForkServer()
    assert becomes_true((parent._scratch / "ignores").exists)
    parent.close()
    assert parent._process.returncode == -signal.SIGKILL
    assert not parent._scratch.exists()


def test_a_trial_that_writes_a_line_without_end_runs_out_of_time() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, open("/dev/zero", "rb") as endless:
        assert ForkServer.read(SimpleNamespace(_socket=ours), endless.fileno(), 1e-9) is None


def test_a_machine_that_stands_still_does_not_end_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock goes on for 1000 s in each of the waits, and the answer comes in the third."""
    reader = pipe_with(b"done\n")
    waits = [([], [], []), ([], [], []), ([reader], [], [])]
    clock = SimpleNamespace(monotonic=iter(range(0, 10_000, 1000)).__next__)
    monkeypatch.setattr(fork_client, "time", clock)
    monkeypatch.setattr(fork_client, "select", SimpleNamespace(select=lambda *_: waits.pop(0)))
    with os.fdopen(reader):
        assert ForkServer.read(SimpleNamespace(_socket=None), reader, 60.0) == b"done\n"


def pipe_with(content: bytes) -> int:
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    return reader
