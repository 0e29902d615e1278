"""Somebody's own module, imported once for all trials of its layers where that is safe, instead of in each of them.

A package may take seconds to import. What decides is seen in the trial that describes the layer: an import that leaves
threads, processes or a CUDA context behind cannot be forked from, and stays each trial's own.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

import torch

from harness import catalog

_CUDA_FILE = "/dev/nvidia-uvm"


def timed_import(impl: str) -> tuple[type, float, bool]:
    """`(class, seconds, whether it may be forked from)`. Raises what importing it raises."""
    began = perf_counter()
    layer_class = catalog.load_class(impl)
    return layer_class, perf_counter() - began, not _left_running()


def _left_running() -> bool:
    tasks = Path("/proc/self/task")
    if not tasks.exists():  # not Linux: what cannot be seen is not relied on
        return True
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    threads = max(len(list(tasks.iterdir())), threading.active_count())
    return threads > 1 or bool(children.strip()) or torch.cuda.is_initialized() or is_on_gpu()


def is_on_gpu(open_files: Path = Path("/proc/self/fd")) -> bool:
    """Whether CUDA's driver is at work here, whoever called it: Triton, CuPy, or torch asked for a number of GPUs.

    It then has this file open. NVML, which survives a fork, has not.
    """
    for one in open_files.iterdir():
        with contextlib.suppress(OSError):  # closed since
            if os.readlink(one) == _CUDA_FILE:
                return True
    return False


def bring_in(impl: str) -> None:
    """Import it here, in the process that trials are forked from. What fails, the trial meets as well, and tells."""
    with _silence(), contextlib.suppress(Exception):
        catalog.load_class(impl)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """What it prints is not for the sweep's screen."""
    kept = os.dup(1), os.dup(2)
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        for descriptor in (1, 2):
            os.dup2(null, descriptor)
        yield
    finally:
        for descriptor, before in zip((1, 2), kept, strict=True):
            os.dup2(before, descriptor)
            os.close(before)
        os.close(null)
