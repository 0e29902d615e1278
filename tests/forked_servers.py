"""Fork servers and commands forked from one process that has imported torch. Each saves the import of two seconds.

This is for tests in which the origin of a process does not matter. The process is otherwise the same: a separate one
with this process's directory, environment and output. It imports the harness along the given path.
"""

import array
import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import NoReturn

_LARGEST = 2**20
_ORIGIN = """
import array, contextlib, gc, json, os, select, signal, socket, sys, tempfile
gc.disable()
{prepare}
gc.collect()
gc.freeze()  # what all fork servers share: each would take a tenth of a second to visit it
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children are reaped at once: no wait() follows
listener = socket.socket(fileno=int(sys.argv[1]))
while True:
    if 0 in select.select([0, listener], [], [])[0]:  # the process that started it has ended
        os._exit(0)
    connection, _ = listener.accept()
    message, descriptors, _, _ = socket.recv_fds(connection, {largest}, 3)
    pid = os.fork() if message else 0
    if message and pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        listener.close()
        connection.close()
        asked = json.loads(message)
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, descriptor in enumerate(descriptors[:2], start=1):
            os.dup2(descriptor, number)
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["environ"])
        tempfile.tempdir = None  # it depends on TMPDIR
        sys.argv[1:] = [*asked["arguments"], str(descriptors[2])]
        exec(asked["program"])
        os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
    with connection, contextlib.suppress(OSError):  # who asked may have been killed
        connection.sendall(array.array("i", [pid]).tobytes())
"""


# Has the origin import all layers, too: for fork servers that have the same ones.
WITH_LAYERS = """
from harness.core.layers import layer_lookup
from harness.core.trial import fork_server
for name in layer_lookup.IMPLS:
    layer_lookup.load_class(name)
"""


# Set to the address of an origin, which processes that the tests start use in place of one of their own.
ADDRESS = "HARNESS_TEST_ORIGIN"
# Set, too, the process runs its `-m MODULE ARGUMENT…` in a fork of that origin.
FORKED = "HARNESS_TEST_FORKED"
# Has the origin import what a sweep does, too: for commands.
WITH_SWEEP = "import harness.cli.parsers, harness.cli.sweep, pandas, harness.study.analyse\n"

# The last argument is a socket. It ends if the other process is killed, and is told this one's exit status.
_COMMAND = """
import atexit, contextlib, gc, os, runpy, signal, socket, sys, threading
gc.enable()
link, own, end = socket.socket(fileno=int(sys.argv.pop())), os.getpid(), os._exit
def end_with_the_other():
    if not link.recv(1):
        os.kill(own, signal.SIGKILL)
def tell_and_end(status):
    if os.getpid() == own:
        link.sendall(bytes([status & 255]))
    end(status)
threading.Thread(target=end_with_the_other, daemon=True).start()
os._exit = tell_and_end
# Streams know whether their file can seek.
sys.stdout = sys.__stdout__ = open(1, "w", buffering=1, encoding=sys.stdout.encoding, closefd=False)
sys.stderr = sys.__stderr__ = open(
    2, "w", buffering=1, encoding=sys.stderr.encoding, errors="backslashreplace", closefd=False
)
sys.executable, module = sys.argv[1:3]
del sys.argv[1:3]
sys.path.insert(0, os.getcwd())
status = 0
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
except SystemExit as ended:
    status = ended.code or 0
    if not isinstance(status, int):
        print(status, file=sys.stderr)
        status = 1
except BaseException:
    sys.excepthook(*sys.exc_info())
    status = 1
threading._shutdown()
atexit._run_exitfuncs()
for stream in (sys.stdout, sys.stderr):
    with contextlib.suppress(OSError):  # its reader may have gone
        stream.flush()
os._exit(status)  # the interpreter's own end would take a third of a second
"""


class Origin:
    """The process from which fork servers are forked, started on first use. `begin` replaces `subprocess.Popen`.

    It runs `prepare` first. The fork servers have what that imports, whatever path they are given. With an `address`,
    it is the one that another process has started.
    """

    def __init__(self, prepare: str = "import torch", address: str | None = None) -> None:
        self._prepare = prepare
        self._is_elsewhere = address is not None
        self.address = address or f"harness-tests-{os.getpid()}-{id(self)}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, env: Mapping[str, str] | None = None) -> None:
        """Start the process, unless it has been started. This one closes it at its exit."""
        if self._process is not None or self._is_elsewhere:
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(f"\0{self.address}")  # no file
            listener.listen(100)
            program = _ORIGIN.format(largest=_LARGEST, prepare=self._prepare)
            command = [sys.executable, "-c", program, str(listener.fileno())]
            pipe = subprocess.PIPE  # its input ends with this process
            self._process = subprocess.Popen(command, pass_fds=[listener.fileno()], stdin=pipe, env=env)
            atexit.register(self.close)

    def begin(
        self, command: Sequence[str], pass_fds: Sequence[int], env: Mapping[str, str], **options: object
    ) -> "Forked | subprocess.Popen[bytes]":
        """Fork a process that runs `python -c PROGRAM ARGUMENT… DESCRIPTOR`, the command of a fork server.

        Another interpreter than this one is started.
        """
        assert options == {"stdin": subprocess.DEVNULL, "start_new_session": True}
        if command[0] != sys.executable:
            return subprocess.Popen(
                command, pass_fds=pass_fds, env=env, stdin=subprocess.DEVNULL, start_new_session=True
            )
        _, _, program, *arguments, descriptor = command
        assert [int(descriptor)] == list(pass_fds)
        return Forked(self._fork(program, arguments, pass_fds, env))

    def _fork(self, program: str, arguments: Sequence[str], pass_fds: Sequence[int], env: Mapping[str, str]) -> int:
        self.start()
        asked = {"program": program, "arguments": arguments, "cwd": os.getcwd(), "environ": dict(env)}
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(f"\0{self.address}")
            socket.send_fds(connection, [json.dumps(asked).encode()], [1, 2, *pass_fds])
            return array.array("i", connection.recv(4))[0]

    def run_this_command(self) -> NoReturn:
        """Run this process's `python -m MODULE ARGUMENT…` in a fork of the origin, and end with its exit status."""
        here, there = socket.socketpair()
        env = {name: value for name, value in os.environ.items() if name != FORKED}
        pid = self._fork(_COMMAND, [sys.executable, *sys.orig_argv[2:]], [there.fileno()], env)
        there.close()
        status = b""
        while received := _received(here, pid):
            status += received
        os._exit(status[0] if status else 1)

    def subprocess(self) -> SimpleNamespace:
        """What `harness.core.run.fork_client` is to have in place of the module `subprocess`."""
        return SimpleNamespace(**vars(subprocess) | {"Popen": self.begin})

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()


def _received(link: socket.socket, pid: int) -> bytes:
    """What the fork sends. Ctrl-C goes on to it."""
    while True:
        try:
            return link.recv(1)
        except KeyboardInterrupt:
            os.kill(pid, signal.SIGINT)


class Forked:
    """A forked fork server, with the methods of a `subprocess.Popen` that the driver uses."""

    def __init__(self, pid: int) -> None:
        self.pid, self._ended = pid, os.pidfd_open(pid)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> None:
        if not select.select([self._ended], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("a fork server", timeout or 0.0)

    def send_signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):  # the process has ended already
            signal.pidfd_send_signal(self._ended, number)

    def __del__(self) -> None:
        os.close(self._ended)
