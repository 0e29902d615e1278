"""Detect work of a layer that goes on after its call has returned: the time of such a call is too short.

Create `OtherThreads` before the layer is built. Threads that appear later are the layer's. Those of OpenMP exist
before: after their last work they spin for a moment, which is no work of the layer. Linux only: elsewhere nothing is
detected.
"""

import os
from collections.abc import Callable
from pathlib import Path
from time import sleep  # bound before a layer may replace it
from typing import Any

import torch
from torch import Tensor

from harness.trial.result_checks import WrongResult
from harness.trial.workload import tensors_in

_TASKS = Path("/proc/self/task")
# Threads are watched after a call in steps of a millisecond: in five of them, how many run, and in these and further
# ones, whether they change the output. Those that the call has started are watched for longer.
_STEP_S = 1e-3
_STEPS, _OUTPUT_STEPS, _OUTPUT_STEPS_OF_NEW = 5, 20, 200
# Before the call, threads get so many steps to sleep: those of OpenBLAS, which import with scipy, spin at first.
_STEPS_TO_IDLE = 200
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

    def running_after(self, call: Callable[[], Any]) -> float:
        """Call, and return how many other threads run in the milliseconds after the call has returned, on average.

        Raises WrongResult if a result of the call still changes. Without other threads, this takes no time but the
        call's.
        """
        before = self.found()
        for _ in range(_STEPS_TO_IDLE):
            if not any(map(_runs, before)):
                break
            sleep(_STEP_S)
        results = call()
        threads = self.found()
        if not threads:
            return 0.0
        tensors = list(results) if isinstance(results, tuple) else list(tensors_in(results))
        early = [None if tensor is None else tensor.detach().clone() for tensor in tensors]
        running = []
        for step in range(_OUTPUT_STEPS_OF_NEW):
            if step < _STEPS:
                running.append(sum(map(_runs, threads)))
            elif step >= _OUTPUT_STEPS and not (threads - before) & _threads():
                break
            sleep(_STEP_S)
        if any(_differs(one, other) for one, other in zip(early, tensors, strict=True)):
            raise WrongResult("its output changes after the call has returned: a thread of its own computes it")
        return sum(running) / len(running)


def _differs(early: Tensor | None, late: Tensor | None) -> bool:
    return early is not None and late is not None and not torch.equal(early.nan_to_num(), late.detach().nan_to_num())


def _threads() -> set[str]:
    return set(os.listdir(_TASKS)) if _TASKS.is_dir() else set()


def _runs(thread: str) -> bool:
    """Whether the thread runs or waits for a CPU, by the letter of its state (proc(5)). It may have ended."""
    try:
        return (_TASKS / thread / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    except (OSError, IndexError):
        return False
