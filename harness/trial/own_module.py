"""Import a user's own module once for all trials of its layers, instead of in each trial, where this is safe.

A package may take seconds to import. The trial that describes the layer finds out whether sharing is safe. A process
cannot be forked safely after an import that leaves threads, processes or a CUDA context. Each trial then imports the
module itself.
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
    """Import the layer's class. Return `(class, seconds, whether a process can be forked after the import)`.

    Raises what the import raises.
    """
    began = perf_counter()
    layer_class = catalog.load_class(impl)
    return layer_class, perf_counter() - began, not _left_running()


def _left_running() -> bool:
    tasks = Path("/proc/self/task")
    if not tasks.exists():  # without Linux's /proc nothing can be observed: assume the worst
        return True
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text()
    threads = max(len(list(tasks.iterdir())), threading.active_count())
    return threads > 1 or bool(children.strip()) or torch.cuda.is_initialized() or is_on_gpu()


def is_on_gpu(open_files: Path = Path("/proc/self/fd")) -> bool:
    """Whether this process uses CUDA's driver, which then has the file `_CUDA_FILE` open.

    The caller may be Triton, CuPy, or torch when it counts GPUs. NVML, which survives a fork, does not open the file.
    """
    for one in open_files.iterdir():
        with contextlib.suppress(OSError):  # the file was closed in the meantime
            if os.readlink(one) == _CUDA_FILE:
                return True
    return False


def bring_in(impl: str) -> None:
    """Import the layer's module here, in the process that trials are forked from.

    Ignore exceptions: the trial's own import raises them again, and the trial reports them.
    """
    with _silence(), contextlib.suppress(Exception):
        catalog.load_class(impl)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard what the import prints, because the screen belongs to the sweep."""
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
