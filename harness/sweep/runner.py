"""Run one trial in a fresh process, forked from a warm parent, and turn whatever happens into an outcome."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from types import TracebackType
from typing import Any

import psutil

from harness.case import Case
from harness.errors import UsageError

# Left free for the machine when the user sets no limit.
_FREE_SHARE = 0.1
# How long a trial may take to end after its last word.
_GRACE_S = 1.0
# The parent finds what the driver finds, wherever it was started from.
_BOOT = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from harness.trial import isolate
isolate.die_with_parent()
from harness.trial import warm
warm.serve(int(sys.argv[2]))
"""


class WarmParentLost(Exception):
    """The process that trials are forked from has ended."""


class Runner:
    """Runs trials on this machine, one at a time. A context manager: its warm parent ends with it.

    `seed` draws weights and inputs, `trial_s` is the sampling time of a timed trial, `timeout_s` the
    longest a trial may take, `memory_limit` in bytes the most that it may allocate (None: 90 % of what
    is free now).
    """

    def __init__(self, *, seed: int, trial_s: float, timeout_s: float, memory_limit: int | None) -> None:
        self.seed = seed
        self.trial_s = trial_s
        self.timeout_s = timeout_s
        self.memory_limit = memory_limit or int((1 - _FREE_SHARE) * psutil.virtual_memory().available)
        self._parent: _WarmParent | None = None

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._drop_parent()

    def start(self) -> None:
        """Begin to start the warm parent, without waiting for it: its imports take a second."""
        if self._parent is None:
            self._parent = _WarmParent()

    def run(self, purpose: str, case: Case | None = None) -> dict[str, Any]:
        """The outcome: `status`, `reason`, `wall_s`, and what the trial measured."""
        parent = self._warm_parent()
        began = time.monotonic()
        request = {
            "purpose": purpose,
            "case": case.as_dict() if case else None,
            "seed": self.seed,
            "trial_s": self.trial_s,
            # A GPU's driver maps more than it uses: a limit on the host's memory would only break it.
            "memory_limit": None if case and case.device == "cuda" else self.memory_limit,
            "sent_at": began,
        }
        try:
            outcome = parent.run(request, self.timeout_s)
        except WarmParentLost:
            self._drop_parent()
            outcome = _failed("killed", "together with the process it was forked from")
        outcome["wall_s"] = round(time.monotonic() - began, 6)
        return outcome

    def _warm_parent(self) -> "_WarmParent":
        self.start()
        assert self._parent is not None
        try:
            self._parent.wait_until_ready()
        except WarmParentLost as error:
            self._parent = None
            raise UsageError("the process that trials are forked from did not start: can torch be imported?") from error
        return self._parent

    def _drop_parent(self) -> None:
        if self._parent is not None:
            self._parent.close()
            self._parent = None


class _WarmParent:
    """The driver's end of `harness.trial.warm`."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, json.dumps(sys.path), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._answers = self._socket.makefile("r")
        self._trial: int | None = None
        self._ready = False

    def wait_until_ready(self) -> None:
        """Raises WarmParentLost where it did not start."""
        if not self._ready:
            try:
                self._answer("ready")
            except BaseException:
                self.close()
                raise
            self._ready = True

    def run(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        reader, writer = os.pipe()
        try:
            try:
                socket.send_fds(self._socket, [json.dumps(request).encode()], [writer])
            except OSError as error:
                raise WarmParentLost from error
            finally:
                os.close(writer)
            self._trial = int(self._answer("started"))
            sent = self._read(reader, time.monotonic() + timeout_s)
        finally:
            os.close(reader)
        ended = sent is not None and bool(select.select([self._socket], [], [], _GRACE_S)[0])
        if not ended:
            self._kill_trial()
        self._trial, status = None, int(self._answer("ended"))
        if sent is None:
            return _failed("timeout", f"no result after {timeout_s:g} s")
        if sent.endswith(b"\n"):
            return json.loads(sent)
        return _death(status) if ended else _failed("killed", "it closed its pipe without a result and went on running")

    def close(self) -> None:
        """End the trial that is running, if any, with what it started, and the parent."""
        if self._trial is not None:
            self._kill_trial()
            with contextlib.suppress(WarmParentLost):
                self._answer("ended")
        self._answers.close()
        self._socket.close()
        self._process.kill()
        self._process.wait()

    def _kill_trial(self) -> None:
        """Kill the trial that is running, if any; what it started, the parent kills."""
        if self._trial is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._trial, signal.SIGKILL)

    def _read(self, pipe: int, deadline: float) -> bytes | None:
        """A line from the pipe, or what came of it before its end or the trial's; None at the deadline.

        The trial's end counts by itself: a child that it left behind may hold the pipe open.
        """
        received = b""
        while not received.endswith(b"\n"):
            ends: list[Any] = [pipe, self._socket]
            ready = select.select(ends, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                return None
            part = os.read(pipe, 1 << 20) if pipe in ready else b""
            if not part:
                break
            received += part
        return received

    def _answer(self, word: str) -> str:
        try:
            line = self._answers.readline()
        except OSError as error:
            raise WarmParentLost from error
        if not line.startswith(word):
            raise WarmParentLost
        return line.removeprefix(word).strip()


def _death(status: int) -> dict[str, Any]:
    if os.WIFSIGNALED(status):
        return _failed("killed", f"by {signal.Signals(os.WTERMSIG(status)).name}")
    return _failed("error", f"its process ended with exit status {os.WEXITSTATUS(status)} and without a result")


def _failed(status: str, reason: str) -> dict[str, Any]:
    return {"status": status, "reason": reason}
