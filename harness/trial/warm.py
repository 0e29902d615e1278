"""The warm parent: torch and our layers imported, no work done; each trial is a fork of it, milliseconds away.

A trial so inherits no OpenMP pool, no CUDA context and no allocator's past. The parent itself only
forks and waits, so that nothing but the trial runs while the trial runs.

Protocol, over one Unix socket: the driver sends a request (JSON) with the write end of a pipe. The parent answers
`started PID`, or `refused REASON` if the system starts no process. The trial writes its outcome to the pipe as one line
(and a line before it, `compiling`, if it comes to that). When it has ended the parent says `ended STATUS`, as in
waitpid(2). With a second pipe, of which it gets the reading end, the trial takes turns: see
`harness.trial.timing.turns`.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import socket
from typing import NoReturn

from harness import catalog
from harness.trial import compiler, isolate, memory_limit, own_module, shared_memory
from harness.trial.answer import send
from harness.trial.compile_notice import give_notice
from harness.trial.run import carry_out
from harness.trial.supervisor import REFUSED

MAX_REQUEST = 65536


def serve(descriptor: int) -> NoReturn:
    """Serve requests on the socket `descriptor` until the driver closes it, which is the end of the process."""
    isolate.adopt_orphans()
    # The driver decides when a trial ends: a Ctrl-C meant for it must not reach the trial's parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    compiler.set_up()
    for name in catalog.names():
        catalog.load_class(name)
    _freeze()
    gc.enable()
    with socket.socket(fileno=descriptor) as connection, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(b"ready\n")
        while True:
            message, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST, 2)
            if not message:
                break
            _prepare(message)
            try:
                pid = os.fork()
            except OSError as error:
                connection.sendall(f"{REFUSED}{error.strerror}\n".encode())
                pid = None
            if pid == 0:
                connection.close()
                _trial(message, *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            if pid is None:
                continue
            shared_memory.note_trial(pid)
            connection.sendall(f"started {pid}\n".encode())
            connection.sendall(f"ended {_reap(pid)}\n".encode())
    os._exit(0)  # freeing what the kernel frees faster takes torch 0.4 s


def _prepare(message: bytes) -> None:
    """Import what the request's trial, and all like it, would import: once here instead of in each of them."""
    request = json.loads(message)
    case = request.get("case") or {}
    if case.get("mode") in ("train", "backward"):
        importlib.import_module("torch.fx.experimental.symbolic_shapes")  # by the first backward pass, 0.3 s
    if request.get("own_module"):
        own_module.bring_in(case["impl"])
    if request.get("compiles"):
        compiler.bring_in(case["device"])
    if request.get("own_module") or request.get("compiles"):
        _freeze()


def _freeze() -> None:
    """The imported modules stay for good: a trial's garbage collection must not walk them (80 ms)."""
    gc.collect()
    gc.freeze()


def _reap(pid: int) -> int:
    """Wait for the trial's end, kill what it left behind in its group or elsewhere, and give its status."""
    # The group is killed before the trial is reaped: until then its number cannot become somebody else's.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with contextlib.suppress(ProcessLookupError, PermissionError):  # it may have ended before it led a group
        os.killpg(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    isolate.kill_children()
    shared_memory.unlink_noted()
    return status


def _trial(message: bytes, pipe: int, turns: int | None = None) -> NoReturn:
    try:
        shared_memory.note_names()
        give_notice(pipe)
        request = json.loads(message)
        memory_limit.tell_at_exit(request["memory_limit"], lambda outcome: send(pipe, outcome))
        send(pipe, carry_out({**request, "ask": turns, "answer": pipe}))
    finally:
        # No exit handlers, and no freeing of what the kernel frees faster.
        os._exit(0)
