"""The driver's end of the fork server (`trial/fork_server.py`), and of the trials that it forks, one at a time."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.core.model import file_io
from harness.core.model.background_process import PLACE, search_path
from harness.core.trial.sandbox import NOTICE, REFUSED, Request

from .outcome import MOST_BYTES, TrialOutcome

# How long a trial may take to end after its answer.
_GRACE_S = 1.0
# Time limits of the fork server: for importing torch and the modules of layers, and for any other answer. The latter
# includes the time in which the kernel frees the trial's memory.
_IMPORTS_S, _ANSWER_S = 600.0, 60.0
# How long the supervisor may take to kill every process below it.
_CLOSE_S = 20.0
_NUDGE_S = 1.0
# The pause between two looks at whether a trial has stopped.
_STOP_S = 50e-6
# A wait for a trial is made of slices, each of which counts for at most twice its length.
_SLICE_S = 5.0
# The fork server imports the driver's harness, whatever its current directory is. Layers may come from another search
# path. Without one, the interpreter is not the driver's: it finds everything but the harness along its own path.
_BOOT = """
import gc, json, os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is meant for the driver, which decides when trials end
gc.disable()  # over a hundred thousand objects that all stay: until `serve` has set them aside
first, path = json.loads(sys.argv[1]), json.loads(sys.argv[2])
if path is None:
    path = [entry for entry in sys.path if entry not in ("", os.getcwd())]
    sys.path[:] = [*first, *path]
    import impls
    path.append(os.getcwd())
else:
    sys.path[:] = first
import harness
sys.path[:] = path
from pathlib import Path
from harness.core.trial import sandbox
sandbox.supervise(int(sys.argv[4]), Path(sys.argv[3]))
try:
    from harness.core.trial import fork_server
except Exception as error:
    if sys.argv[2] == "null":  # an environment that is told by one line
        sys.exit(f"harness: {sys.executable}: {type(error).__name__}: {error}")
    raise
fork_server.serve(int(sys.argv[4]))
"""


@dataclass(frozen=True)
class Runtime:
    """What the processes of trials run in.

    - `python`: the interpreter; None is the driver's own.
    - `variables`: environment variables, beside the driver's.
    - `path`: replaces the driver's `sys.path` in the search for layers. Another interpreter has its own path instead,
      and the current directory.
    """

    python: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    path: Sequence[str] | None = None


# The driver's interpreter, variables and search path.
OF_DRIVER = Runtime()


class ForkServerLost(Exception):
    """The fork server has ended, or does not answer. The text is the reason why a trial was killed."""

    def __init__(self, reason: str = "the fork server ended") -> None:
        super().__init__(reason)


class NoProcess(ForkServerLost):
    """The system started no process."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no process could be started ({reason}): see `ulimit -u`, and free some memory")


class NoAnswer(ForkServerLost):
    """The fork server is stopped or does not answer."""

    def __init__(self) -> None:
        super().__init__("the fork server stopped answering")


class ForkServer:
    """A fork server in a runtime, as the driver sees it.

    `trial` is the process id of the running trial, if any.
    """

    def __init__(self, runtime: Runtime = OF_DRIVER) -> None:
        _open_missing_streams()
        own_path = search_path(sys.path)
        paths = (own_path, runtime.path or own_path) if runtime.python is None else ([str(PLACE)], None)
        self._socket, theirs = socket.socketpair()
        self._scratch = file_io.make_scratch()
        arguments = [*map(json.dumps, paths), str(self._scratch), str(theirs.fileno())]
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [runtime.python or sys.executable, "-c", _BOOT, *arguments],
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, **runtime.variables},
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except OSError as error:
            self._socket.close()
            file_io.remove_scratch(self._scratch)
            raise NoProcess(str(error.strerror)) from error
        self._received = b""
        self._directories = 0
        self.trial: int | None = None
        self._purpose = ""
        self._trial_directory = self._scratch  # the directory of the trial that is running
        self._ready = False

    def wait_until_ready(self) -> None:
        """Wait until the fork server accepts requests. Raises ForkServerLost if it did not start."""
        if not self._ready:
            try:
                self._answer("ready", _IMPORTS_S)
            except BaseException:
                self.close()
                raise
            self._ready = True

    def run(self, request: Request, timeout_s: float, compile_timeout_s: float) -> TrialOutcome:
        """Run a trial of any kind and return its outcome.

        A trial that reports that it compiles gets `compile_timeout_s` more. Raises ForkServerLost.
        """
        reader = self.begin(request)
        try:
            sent = self.read(reader, timeout_s)
            if sent == NOTICE:
                timeout_s += compile_timeout_s
                sent = self.read(reader, timeout_s)
        finally:
            os.close(reader)
        return self.end(sent, timeout_s)

    def begin(self, request: Request, *more: int) -> int:
        """Fork a trial and return the descriptor of its answers. The caller closes that descriptor.

        The trial inherits the descriptors `more`. An earlier trial that is still running is killed, because only one
        runs at a time. Raises ForkServerLost.
        """
        if self.trial is not None:
            self.end(None, 0.0)
        self._purpose, self._trial_directory = request["purpose"], self._scratch / str(self._directories)
        try:
            self._trial_directory.mkdir(exist_ok=True)
        except OSError as error:
            raise ForkServerLost(f"its temporary directory: {error.strerror}") from error
        reader, writer = os.pipe()
        try:
            self._send({**request, "temporary": str(self._trial_directory)}, [writer, *more])
            self.trial = int(self._answer("started", _IMPORTS_S))
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return reader

    def end(self, sent: bytes | None, timeout_s: float) -> TrialOutcome:
        """End the trial and return its outcome.

        `sent` is the last line that was read, possibly incomplete, or None if the trial ran out of time. Raises
        ForkServerLost.
        """
        ended = sent is not None and self._is_answered(_GRACE_S)
        if not ended:
            self._signal_trial(signal.SIGKILL)
        self.trial, status = None, int(self._answer("ended", _ANSWER_S))
        # Most trials leave it usable and empty, and `rmdir` takes 3 ms.
        is_usable = os.access(self._trial_directory, os.R_OK | os.W_OK | os.X_OK)
        if not is_usable or os.listdir(self._trial_directory):
            file_io.remove_scratch(self._trial_directory)
            self._directories += 1
        if sent is None:
            return TrialOutcome("timeout", f"no result after {timeout_s:g} s")
        sent = sent.removeprefix(NOTICE)
        if sent.endswith(b"\n") or len(sent) > MOST_BYTES:
            return TrialOutcome.of_answer(sent, self._purpose)
        if ended:
            return TrialOutcome.of_exit(os.waitstatus_to_exitcode(status))
        return TrialOutcome("killed", "it closed its pipe without a result and went on running")

    def pause(self) -> None:
        """Stop the running trial and its children, and wait until none of its threads runs."""
        self._signal_trial(signal.SIGSTOP)
        give_up = time.monotonic() + _GRACE_S  # a thread may wait for a disk, where it cannot stop
        while self.trial is not None and time.monotonic() < give_up and not _is_stopped(self.trial):
            time.sleep(_STOP_S)

    def resume(self) -> None:
        """Let a paused trial run again. Another one goes on."""
        self._signal_trial(signal.SIGCONT)

    def close(self) -> None:
        """End the supervisor, and with it the fork server, the running trial and all processes below them."""
        self._signal_trial(signal.SIGKILL)
        self._socket.close()
        for number in (signal.SIGTERM, signal.SIGCONT):  # the supervisor may be stopped
            self._process.send_signal(number)
        try:
            self._process.wait(_CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()  # the kernel then kills the fork server, and thereby the trial
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_CLOSE_S)
        file_io.remove_scratch(self._scratch)

    def _signal_trial(self, number: signal.Signals) -> None:
        """Send the signal to the running trial, if any, and its process group.

        The fork server kills its other processes.
        """
        if self.trial is None:
            return
        # The group comes first: its number is valid only while it has members. The trial may not lead a group yet.
        # After a loss of the fork server, only the group may be left.
        for kill in (os.killpg, os.kill):
            with suppress(ProcessLookupError, PermissionError):
                kill(self.trial, number)

    def read(self, pipe: int, timeout_s: float) -> bytes | None:
        """A line from the pipe; None if it takes longer than `timeout_s`.

        Time in which the driver cannot run either counts only in part, for example while the machine is suspended. If
        the pipe or the trial ends first, the line is incomplete. The trial's end alone counts, because a child of the
        trial may hold the pipe open. Beyond `MOST_BYTES`, the rest of a line is not read.
        """
        received = bytearray()
        left_s = timeout_s
        while not received.endswith(b"\n") and len(received) <= MOST_BYTES:
            if left_s <= 0.0:
                return None  # also of a layer that writes to its pipe endlessly
            ends: list[Any] = [pipe, self._socket]
            began = time.monotonic()
            ready = select.select(ends, [], [], min(left_s, _SLICE_S))[0]
            left_s -= min(time.monotonic() - began, 2 * _SLICE_S)
            if ready:
                part = os.read(pipe, 1 << 20) if pipe in ready else b""
                if not part:
                    break
                received += part
        return bytes(received)

    def _send(self, request: Request, descriptors: Sequence[int]) -> None:
        self._socket.settimeout(_ANSWER_S)
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
        except TimeoutError as error:
            raise NoAnswer from error
        except OSError as error:
            raise ForkServerLost from error

    def _is_answered(self, timeout_s: float) -> bool:
        """Whether an answer, or the end of the process, can be read within `timeout_s`."""
        return b"\n" in self._received or bool(select.select([self._socket], [], [], timeout_s)[0])

    def _answer(self, word: str, timeout_s: float) -> str:
        """The text after `word` in the next answer. Raises ForkServerLost, also if the fork server stays stopped.

        A whole job may be suspended and resumed. The fork server is then found stopped once, and not three times.
        """
        waited_s = 0.0
        while b"\n" not in self._received:
            if self._is_answered(_NUDGE_S):
                part = b""
                with suppress(OSError):
                    part = self._socket.recv(4096)
                if not part:
                    raise ForkServerLost
                self._received += part
            else:
                waited_s += timeout_s / 3 if self._is_server_stopped() else _NUDGE_S
                if waited_s >= timeout_s:
                    raise NoAnswer
                self._process.send_signal(signal.SIGCONT)  # a layer may have stopped the supervisor
        line, _, self._received = self._received.partition(b"\n")
        answer = line.decode()
        if answer.startswith(REFUSED):
            raise NoProcess(answer.removeprefix(REFUSED))
        if not answer.startswith(word):
            raise ForkServerLost
        return answer.removeprefix(word).strip()

    def _is_server_stopped(self) -> bool:
        """Whether the fork server, the first child of the supervisor, has stopped."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        return children.exists() and any(map(_is_stopped, children.read_text().split()[:1]))


def _is_stopped(pid: int | str) -> bool:
    """Whether every thread of the process has stopped or ended. Where the system has no /proc, assume so."""
    threads = Path(f"/proc/{pid}/task").glob("*/stat")
    with suppress(FileNotFoundError, ProcessLookupError):  # a thread has ended in the meantime
        return all(stat.read_text().rpartition(")")[2].split()[0] in "TtZX" for stat in threads)
    return False


def _open_missing_streams() -> None:
    """Open the missing ones of stdin, stdout and stderr on the null device.

    Without this, the next opened files would get their numbers. The socket to the fork server or a trial's pipe could
    be among them, and a child's streams would then replace it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)  # the fork server needs them too
    os.close(descriptor)
