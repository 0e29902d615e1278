"""A stand-in for `triton.testing.do_bench` on the simulated GPU, as Triton is not installed without a real one.

It takes the steps of the original, by its documentation and source: a first call, an estimate from five calls, warm-up,
then calls between two events each. Each timed call follows a flush of the L2 cache, which is outside of its events.
Before the flush, the gradients of the tensors in `grad_to_none` are cleared.
https://triton-lang.org/main/python-api/generated/triton.testing.do_bench.html

There is no package `triton` for it: torch would take one for the compiler.
"""

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch

_CALLS_OF_ESTIMATE = 5
# The original writes 256 MB, which is five times the L2 cache of an H100.
_FLUSH_FACTOR = 5


def do_bench(
    fn: Callable[[], Any], warmup: float, rep: float, return_mode: str, grad_to_none: Sequence[Any] = ()
) -> float:
    """The median time of a call in milliseconds. `warmup` and `rep` are durations in milliseconds, flushes included."""
    if return_mode != "median":
        raise ValueError(f"only the median is simulated, not the {return_mode}")
    fn()
    torch.cuda.synchronize()
    buffer = torch.zeros(_FLUSH_FACTOR * torch.cuda.get_device_properties(0).L2_cache_size // 4, device="cuda")
    start = _event()
    for _ in range(_CALLS_OF_ESTIMATE):
        buffer.zero_()
        fn()
    end = _event()
    torch.cuda.synchronize()
    estimate_ms = start.elapsed_time(end) / _CALLS_OF_ESTIMATE
    for _ in range(max(1, int(warmup / estimate_ms))):
        fn()
    pairs = []
    for _ in range(max(1, int(rep / estimate_ms))):
        for tensor in grad_to_none:
            tensor.grad = None
        buffer.zero_()
        start = _event()
        fn()
        pairs.append((start, _event()))
    torch.cuda.synchronize()
    return median(start.elapsed_time(end) for start, end in pairs)


def _event() -> torch.cuda.Event:
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event
