"""Detect work of a layer that goes on after its call has returned: the time of such a call is too short.

Create `OtherThreads` before the layer is built. Threads that appear later are the layer's. Those of OpenMP exist
before: after their last work they spin for a moment, which is no work of the layer. Linux only: elsewhere nothing is
detected.
"""

import os
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import torch
from torch import Tensor

from harness.trial.layer_protocol import WrongResult
from harness.trial.workload import tensors_in

_TASKS = Path("/proc/self/task")
# How long to watch threads after a call, in steps: a thread that ends within a step is seen until then.
_STEPS, _STEP_S = 5, 1e-3
# Elements for each thread above torch's least number, so that all threads of the pool start.
_ELEMENTS = 2**16


class OtherThreads:
    """The threads of this process that did not exist when the object was created."""

    def __init__(self) -> None:
        # Starts the pool, without memory whose return would change how the C library treats that of the layer.
        torch.zeros(1).expand(torch.get_num_threads() * _ELEMENTS).sum()
        self._own = _threads()

    def found(self) -> set[str]:
        """Those that exist now."""
        return _threads() - self._own

    def cpus_after(self, call: Callable[[], Any]) -> float:
        """Call, and return how many CPUs other threads use for a few milliseconds after the call has returned.

        Raises WrongResult if a result of the call still changes. Without other threads, this takes no time but the
        call's.
        """
        results = call()
        threads = self.found()
        if not threads:
            return 0.0
        tensors = list(results) if isinstance(results, tuple) else list(tensors_in(results))
        early = [None if tensor is None else tensor.detach().clone() for tensor in tensors]
        began, first = perf_counter(), {thread: _seconds(thread) for thread in threads}
        last = dict(first)
        for _ in range(_STEPS):
            sleep(_STEP_S)
            last |= {thread: seconds for thread in threads if (seconds := _seconds(thread)) is not None}
        passed = perf_counter() - began
        if any(_differs(one, other) for one, other in zip(early, tensors, strict=True)):
            raise WrongResult("its output changes after the call has returned: a thread of its own computes it")
        return sum((last[thread] or 0.0) - (first[thread] or 0.0) for thread in threads) / passed


def _differs(early: Tensor | None, late: Tensor | None) -> bool:
    return early is not None and late is not None and not torch.equal(early.nan_to_num(), late.detach().nan_to_num())


def _threads() -> set[str]:
    return set(os.listdir(_TASKS)) if _TASKS.is_dir() else set()


def _seconds(thread: str) -> float | None:
    """The time that the thread has run on a CPU; None if it has ended, or if the kernel does not tell."""
    try:
        return int((_TASKS / thread / "schedstat").read_text().split()[0]) / 1e9
    except (OSError, ValueError, IndexError):
        return None
