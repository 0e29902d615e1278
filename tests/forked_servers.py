"""Fork servers forked from one process that has imported torch. Each saves the import, which takes two seconds.

This is for tests in which the origin of a fork server does not matter. The server is otherwise the same: a separate
process with this process's directory, environment and output. It imports the harness along the given path.
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
        self.start()
        asked = {"program": program, "arguments": arguments, "cwd": os.getcwd(), "environ": dict(env)}
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(f"\0{self.address}")
            socket.send_fds(connection, [json.dumps(asked).encode()], [1, 2, *pass_fds])
            (pid,) = array.array("i", connection.recv(4))
        return Forked(pid)

    def subprocess(self) -> SimpleNamespace:
        """What `harness.core.run.fork_client` is to have in place of the module `subprocess`."""
        return SimpleNamespace(**vars(subprocess) | {"Popen": self.begin})

    def close(self) -> None:
        if self._process is not None:
            self._process.communicate()


class Forked:
    """A forked fork server, with the methods of a `subprocess.Popen` that the driver uses."""

    def __init__(self, pid: int) -> None:
        self._ended = os.pidfd_open(pid)

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
