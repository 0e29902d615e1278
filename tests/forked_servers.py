"""Fork servers forked from one process that has imported torch. Each saves the import, which takes two seconds.

This is for tests in which the origin of a fork server does not matter. The server is otherwise the same: a separate
process with this process's directory, environment and output. It imports the harness along the given path.
"""

import array
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
import array, gc, json, os, signal, socket, sys
gc.disable()
{prepare}
gc.collect()
gc.freeze()  # what all fork servers share: each would take a tenth of a second to visit it
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended children are reaped at once: no wait() follows
connection = socket.socket(fileno=int(sys.argv[1]))
while True:
    message, descriptors, _, _ = socket.recv_fds(connection, {largest}, 3)
    if not message:
        os._exit(0)
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        connection.close()
        asked = json.loads(message)
        os.setsid()
        for number, descriptor in enumerate(descriptors[:2], start=1):
            os.dup2(descriptor, number)
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["environ"])
        sys.argv[1:] = [*asked["arguments"], str(descriptors[2])]
        exec(asked["program"])
        os._exit(0)
    for descriptor in descriptors:
        os.close(descriptor)
    connection.sendall(array.array("i", [pid]).tobytes())
"""


# Has the origin import all layers, too: for fork servers that have the same ones.
WITH_LAYERS = """
from harness import layer_lookup
from harness.trial import fork_server
for name in layer_lookup.names():
    layer_lookup.load_class(name)
"""


class Origin:
    """The process from which fork servers are forked, started on first use. `begin` replaces `subprocess.Popen`.

    It runs `prepare` first. The fork servers have what that imports, whatever path they are given.
    """

    def __init__(self, prepare: str = "import torch") -> None:
        self._prepare = prepare
        self._process: subprocess.Popen[bytes] | None = None

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
        if self._process is None:
            self._connection, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
            with theirs:
                program_of_origin = _ORIGIN.format(largest=_LARGEST, prepare=self._prepare)
                origin = [sys.executable, "-c", program_of_origin, str(theirs.fileno())]
                self._process = subprocess.Popen(origin, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        asked = {"program": program, "arguments": arguments, "cwd": os.getcwd(), "environ": dict(env)}
        socket.send_fds(self._connection, [json.dumps(asked).encode()], [1, 2, *pass_fds])
        (pid,) = array.array("i", self._connection.recv(4))
        return Forked(pid)

    def subprocess(self) -> SimpleNamespace:
        """What `harness.measure.fork_client` is to have in place of the module `subprocess`."""
        return SimpleNamespace(**vars(subprocess) | {"Popen": self.begin})

    def close(self) -> None:
        if self._process is not None:
            self._connection.close()
            self._process.wait()


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
