"""The driver's end of `harness.trial.warm`: the process that trials are forked from, one at a time."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from harness.checkout import search_path
from harness.sweep.answers import MOST_BYTES
from harness.sweep.outcome import death, failed, outcome_of
from harness.trial.compile_notice import NOTICE

# How long a trial may take to end after its last word.
_GRACE_S = 1.0
# The parent finds what the driver finds, wherever it was started from; layers it may be told to find elsewhere, but the
# harness that measures them is always the driver's.
_BOOT = """
import gc, json, sys
gc.disable()  # over a hundred thousand objects that all stay: until `serve` has set them aside
sys.path[:] = json.loads(sys.argv[1])
import harness
sys.path[:] = json.loads(sys.argv[2])
from harness.trial import isolate
isolate.die_with_parent()
from harness.trial import warm
warm.serve(int(sys.argv[3]))
"""


class WarmParentLost(Exception):
    """The process that trials are forked from has ended."""


class WarmParent:
    """The driver's end of `harness.trial.warm`. Layers are looked for along `path`, if it is given."""

    def __init__(self, path: Sequence[str] | None = None) -> None:
        _occupy_streams()
        own = search_path(sys.path)
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _BOOT, *map(json.dumps, (own, path or own)), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._answers = self._socket.makefile("r")
        self._trial: int | None = None
        self._purpose = ""
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

    def run(self, request: dict[str, Any], timeout_s: float, compile_timeout_s: float) -> dict[str, Any]:
        """The outcome of a trial, of whatever kind. One that says it has begun to compile is given that much more time.

        Raises WarmParentLost.
        """
        reader = self.begin(request)
        try:
            sent = self.read(reader, time.monotonic() + timeout_s)
            if sent == NOTICE:
                timeout_s += compile_timeout_s
                sent = self.read(reader, time.monotonic() + timeout_s)
        finally:
            os.close(reader)
        return self.end(sent, timeout_s)

    @property
    def trial(self) -> int | None:
        """The process of the trial that is running, if any."""
        return self._trial

    def begin(self, request: dict[str, Any], *more: int) -> int:
        """Fork a trial; the descriptor that it answers on, to be closed by the caller. `more` are passed on to it.

        One that was begun before and not ended is killed: there is one at a time. Raises WarmParentLost.
        """
        if self._trial is not None:
            self.end(None, 0.0)
        self._purpose = request["purpose"]
        reader, writer = os.pipe()
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], [writer, *more])
            self._trial = int(self._answer("started"))
        except BaseException as error:
            os.close(reader)
            if isinstance(error, OSError):
                raise WarmParentLost from error
            raise
        finally:
            os.close(writer)
        return reader

    def end(self, sent: bytes | None, timeout_s: float) -> dict[str, Any]:
        """The outcome of the trial whose last line, or what came of it, was `sent`; None of one that ran out of time.

        Raises WarmParentLost.
        """
        ended = sent is not None and bool(select.select([self._socket], [], [], _GRACE_S)[0])
        if not ended:
            self._kill_trial()
        self._trial, status = None, int(self._answer("ended"))
        if sent is None:
            return failed("timeout", f"no result after {timeout_s:g} s")
        sent = sent.removeprefix(NOTICE)
        if sent.endswith(b"\n") or len(sent) > MOST_BYTES:
            return outcome_of(sent, self._purpose)
        return (
            death(os.waitstatus_to_exitcode(status))
            if ended
            else failed("killed", "it closed its pipe without a result and went on running")
        )

    def close(self) -> None:
        """End the trial that is running, if any, with what it started, and the parent."""
        if self._trial is not None:
            self._kill_trial()
            with contextlib.suppress(WarmParentLost):
                self._answer("ended")
        self._answers.close()
        self._socket.close()
        self._process.terminate()  # it first ends what it has started itself
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _kill_trial(self) -> None:
        """Kill the trial that is running, if any, and its group; what else it started, the parent kills."""
        if self._trial is None:
            return
        # The group first: it has this number only as long as it has members. It may be that the trial does not lead one
        # yet, or, after its parent was lost, that the group is all that is left.
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(self._trial, signal.SIGKILL)

    def read(self, pipe: int, deadline: float) -> bytes | None:
        """A line from the pipe, or what came of it before its end or the trial's; None at the deadline.

        Of a line of more than `MOST_BYTES` the rest is not read.
        The trial's end counts by itself: a child that it left behind may hold the pipe open.
        """
        received = bytearray()
        while not received.endswith(b"\n") and len(received) <= MOST_BYTES:
            ends: list[Any] = [pipe, self._socket]
            ready = select.select(ends, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                return None
            part = os.read(pipe, 1 << 20) if pipe in ready else b""
            if not part:
                break
            received += part
            if time.monotonic() > deadline and not received.endswith(b"\n"):
                return None  # a layer may write to its pipe without an end
        return bytes(received)

    def _answer(self, word: str) -> str:
        try:
            line = self._answers.readline()
        except OSError as error:
            raise WarmParentLost from error
        if not line.startswith(word):
            raise WarmParentLost
        return line.removeprefix(word).strip()


def _occupy_streams() -> None:
    """Open what this process was started without of stdin, stdout and stderr, on nothing.

    The next files would get their numbers: the socket to the parent or a trial's pipe, over which a child's own streams
    are then laid.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)  # the parent is to have them too
    os.close(descriptor)
