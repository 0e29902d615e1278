"""The fork server: a process that has imported torch and the registered layers, and forks itself for each trial.

A fork takes milliseconds. A trial inherits no OpenMP pool, no CUDA context and no history of the allocator. The fork
server only forks and waits, so nothing else runs during a trial.

The driver (the process that has trials made, see `harness.core.run.fork_client`) uses one Unix socket:

- The driver sends a request (JSON) with the write end of a pipe. If it also sends the read end of a second pipe, the
  trial takes interleaved samples: see `harness.core.trial.timing.timed_trial`.
- The fork server answers `started PID`, or `refused REASON` if the system cannot start a process.
- The trial writes its outcome to the pipe as one line. If it begins to compile, it first writes the line `compiling`.
- When the trial has ended, the fork server sends `ended STATUS`, as in waitpid(2).
"""

import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from harness.core.layers import layer_lookup
from impls.registry import IMPLS

from . import compilation, device, environment, layer_protocol, sandbox, trial_kinds
from .sandbox import Request

MAX_REQUEST = 65536

# A short-lived fork server does not earn back the third of a second that `_use_huge_pages` takes.
_TRIALS_BEFORE_HUGE_PAGES = 40
_HUGE_PAGE = 2 * 2**20
_MADV_COLLAPSE = 25  # since Linux 6.1; an older kernel refuses it


def serve(descriptor: int) -> NoReturn:
    """Serve requests on the socket `descriptor` until the driver closes it. Then end the process."""
    sandbox.adopt_orphans()
    compilation.set_up_compiler()
    for name in IMPLS:
        layer_lookup.load_class(name)
    environment.probe_matrices()
    _freeze()
    gc.enable()
    with socket.socket(fileno=descriptor) as connection, suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(b"ready\n")
        trials = 0
        while True:
            message, descriptors, _, _ = socket.recv_fds(connection, MAX_REQUEST, 2)
            if not message:
                break
            request = json.loads(message)
            _prepare(request)
            trials += 1
            if trials == _TRIALS_BEFORE_HUGE_PAGES:
                _use_huge_pages()
            pid = None
            try:
                check_cuda_untouched(request)
                pid = os.fork()
            except (OSError, CudaAtWork) as error:
                why = error.strerror if isinstance(error, OSError) else error
                connection.sendall(f"{sandbox.REFUSED}{why}\n".encode())
            if pid == 0:
                connection.close()
                _trial(request, *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            if pid is not None:
                connection.sendall(f"started {pid}\n".encode())
                connection.sendall(f"ended {_wait_and_clean_up(pid)}\n".encode())
    os._exit(0)  # the kernel frees the memory faster; torch would take 0.4 s


class CudaAtWork(Exception):
    """The fork server uses CUDA, which does not survive a fork."""


def check_cuda_untouched(request: Request) -> None:
    """Raise CudaAtWork if this process uses CUDA: every trial forked from it would fail, with an obscure error.

    Some function of torch, or the import of the request's layer, has started it. This takes 20 µs.
    """
    if device.has_started_cuda():
        case = request.get("case") or {}
        raise CudaAtWork(
            "CUDA is at work in the process that trials are forked from, since it prepared a trial of "
            f"{case.get('impl', 'the machine')}: importing a layer must not use the GPU"
        )


@contextmanager
def _silence() -> Iterator[None]:
    """Discard what the import prints, because the screen belongs to the sweep."""
    kept = os.dup(1), os.dup(2)
    try:
        sandbox.connect_to_null(1, 2)
        yield
    finally:
        for descriptor, before in zip((1, 2), kept, strict=True):
            os.dup2(before, descriptor)
            os.close(before)


def _prepare(request: Request) -> None:
    """Import here, once, the modules that the request's trial and all similar trials would import.

    If this imports any module, repeat `_freeze`: a trial otherwise takes 20 to 40 ms for each garbage collection.
    """
    case, imported = request.get("case") or {}, len(sys.modules)
    with suppress(Exception):  # the trial itself reports it
        trial_kinds.handler_of(request["purpose"])
    if case.get("mode") in ("train", "backward"):
        importlib.import_module("torch.fx.experimental.symbolic_shapes")  # 0.3 s in the first backward pass otherwise
    if request.get("own_module"):
        # A package may take seconds to import. The trial that describes the layer finds out whether sharing is safe.
        with _silence(), suppress(Exception):  # the trial's own import raises it again
            layer_protocol.load(case["impl"])
    if request.get("compiles"):
        compilation.preload_compiler(case["device"])
    if len(sys.modules) != imported:
        _freeze()


def _freeze() -> None:
    """Exclude the imported modules from the garbage collection of trials, which would take 80 ms to visit them."""
    compilation.triton_kernels()  # it notes the kernels, which are not listed afterwards
    gc.collect()
    gc.freeze()


def _use_huge_pages() -> None:
    """Gather the private memory of this process in huge pages, as far as the kernel can. Linux only.

    The kernel then copies and frees a two-megabyte entry for each trial, where it had 512 of four kilobytes. This takes
    4 to 8 ms off a trial. It does not change the times of layers: over 12 cases, with and without in turns, their ratio
    was 0.995 to 1.011, and 1.001 in the mean.
    """
    if sys.platform != "linux":
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in Path("/proc/self/maps").read_text().splitlines():
        ends, permissions, *_, inode = line.split(maxsplit=5)[:5]
        if permissions[1] == "w" and inode == "0":
            start, end = (int(number, 16) for number in ends.split("-"))
            for address in range(-(-start // _HUGE_PAGE) * _HUGE_PAGE, end - _HUGE_PAGE + 1, _HUGE_PAGE):
                advise(address, _HUGE_PAGE, _MADV_COLLAPSE)


def _wait_and_clean_up(pid: int) -> int:
    """Wait for the trial's end, kill all processes that it left behind, and return its status."""
    # Kill the group before reaping the trial: until then no other process can get its number.
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with suppress(ProcessLookupError, PermissionError):  # the trial may have ended before it led a group
        os.killpg(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    sandbox.kill_children()
    return status


def _trial(request: Request, pipe: int, turns: int | None = None) -> NoReturn:
    try:
        if request.get("path"):
            sys.path[:] = request["path"]
            for name in list(sys.modules):  # the built-in layers are imported from there too
                if name.partition(".")[0] == "impls":
                    del sys.modules[name]
        compilation.give_notice(pipe)
        sandbox.tell_at_exit(request["memory_limit"], lambda outcome: sandbox.send(pipe, outcome))
        outcome = trial_kinds.run_trial({**request, "ask": turns, "answer": pipe})
        sandbox.send(pipe, outcome)
    finally:
        # Run no exit handlers, and leave freeing memory to the kernel, which is faster.
        os._exit(0)
