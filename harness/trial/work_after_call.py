"""Detect work of a layer in threads of its own, and work that goes on after its call has returned.

The time of such a call is too short, and torch's counts are of the calling thread alone.

Create `OtherThreads` before the layer is built. Threads that appear later are the layer's. Those of OpenMP exist
before: after their last work they spin for a moment, which is no work of the layer. Linux only: elsewhere nothing is
detected.

Work is CPU time: that of the process without that of the threads that existed before. So threads that have ended count,
and so do those that wait for Python's lock while this module looks.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import clock_gettime, perf_counter, process_time, sleep  # bound before a layer may replace them
from typing import Any, TypeVar

import torch
from torch import Tensor

from harness.trial.result_checks import WrongResult
from harness.trial.workload import tensors_in

T = TypeVar("T")
_TASKS = Path("/proc/self/task")
# After a call, threads are watched for so many steps of a millisecond. Those that the call has started are watched for
# longer.
_STEP_S = 1e-3
_STEPS, _STEPS_OF_NEW = 20, 200
# Before the call, threads get so many times `_STEPS` to sleep: those of OpenBLAS, which import with scipy, spin at
# first. They sleep if they work for less than a share of the time.
_TIMES_TO_IDLE, _IDLE = 10, 0.02
# Less work than this is that of a thread which goes to sleep, or ends.
_LEAST_S = 0.2e-3
# Elements for each thread above torch's least number, so that all threads of the pool start.
_ELEMENTS = 2**16


class OtherThreads:
    """The threads of this process that did not exist when the object was created."""

    def __init__(self) -> None:
        # Starts the pool, without memory whose return would change how the C library treats that of the layer.
        torch.zeros(1).expand(torch.get_num_threads() * _ELEMENTS).sum()
        self._own = dict.fromkeys(_threads(), 0.0)  # the CPU time of each

    def running_after(self, call: Callable[[], Any]) -> float:
        """Call, and return `threads_after`: the CPU time of other threads after the call, the larger of two shares.

        One is that of the time for which they are watched. The other is that of the call's time, without work at the
        rate at which they worked before the call, and 0 for less than `_LEAST_S`. Raises WrongResult if a result of
        the call still changes. Without other threads, this takes no time but the call's.
        """
        before, idle = self._wait_until_idle()
        began = perf_counter()
        results = call()
        returned, worked_s = perf_counter(), self._cpu_s()
        new = _threads() - self._own.keys() - before
        if not before | new:
            return 0.0
        tensors = list(results) if isinstance(results, tuple) else list(tensors_in(results))
        early = [None if tensor is None else tensor.detach().clone() for tensor in tensors]
        for step in range(_STEPS_OF_NEW):
            if step >= _STEPS and not new & _threads():
                break
            sleep(_STEP_S)
        worked_s, watched_s = self._cpu_s() - worked_s, perf_counter() - returned
        if any(_differs(one, other) for one, other in zip(early, tensors, strict=True)):
            raise WrongResult("its output changes after the call has returned: a thread of its own computes it")
        caused_s = worked_s - idle * watched_s
        return max(0.0, worked_s / watched_s, caused_s / (returned - began) if caused_s > _LEAST_S else 0.0)

    def work_during(self, call: Callable[[], T]) -> tuple[T, bool]:
        """Call, and return the result and whether other threads worked meanwhile."""
        _, idle = self._wait_until_idle()
        began, worked_s = perf_counter(), self._cpu_s()  # the calling thread's time since its clock was read is in it …
        result = call()
        process_s = process_time()
        self._cpu_s()  # … and here it is not, so that this thread's work never counts
        worked_s = process_s - sum(self._own.values()) - worked_s
        return result, worked_s > 2 * idle * (perf_counter() - began)

    def _wait_until_idle(self) -> tuple[set[str], float]:
        """Return the other threads, and the share of the time for which they still work."""
        threads, idle = _threads() - self._own.keys(), 0.0
        for _ in range(_TIMES_TO_IDLE if threads else 0):
            at, worked_s = perf_counter(), self._cpu_s()
            sleep(_STEPS * _STEP_S)
            idle = (self._cpu_s() - worked_s) / (perf_counter() - at)
            if idle < _IDLE:
                break
        return threads, idle

    def _cpu_s(self) -> float:
        """The CPU time of the other threads. The kernel's clock of a thread is known by its number (clock_gettime).

        One of `_own` may end, as when the layer lowers the number of threads. Its last reading then counts.
        """
        for thread in self._own:
            with suppress(OSError):
                self._own[thread] = clock_gettime(~int(thread) << 3 | 6)
        return process_time() - sum(self._own.values())


def _differs(early: Tensor | None, late: Tensor | None) -> bool:
    return early is not None and late is not None and not torch.equal(early.nan_to_num(), late.detach().nan_to_num())


def _threads() -> set[str]:
    return set(os.listdir(_TASKS)) if _TASKS.is_dir() else set()
