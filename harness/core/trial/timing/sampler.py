"""Warm a call up until it is steady, then take samples that are long compared with reading the clock.

cold first call | warm-up … steady | sample | sample | sample …
"""

import gc
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from ..environment import IsWarm, Usage, usage, warm_up
from ..workload import Call

# A lower bound for the time of a layer's call. The clock cannot resolve shorter times.
LEAST_CALL_S = 1e-7
# A sample lasts at least this many times as long as a reading of the clock, which then costs at most 1 %.
CLOCK_SHARE = 100
# Long enough to span a few short calls, short enough that many samples see different moments of the machine.
MIN_SAMPLE_S = 0.5e-3
# The value of a trial is made of stretches of as many samples: see `estimate.STRETCH`. More samples of a
# long call say nothing new: over four default sweeps, the values of trials differed alike with three samples and with
# five.
MIN_SAMPLES = 3
# After a probe, the caches must be refilled. In a sample this long, that time is negligible.
LONG_SAMPLE_S = 20e-3
# Warm-up is over when the last few calls no longer beat the ones before by more than this share …
STEADY = 0.02
STEADY_CALLS = 3
# … or when it has taken this share of the sampling budget, and at least so many seconds.
WARMUP_SHARE = 0.1
LEAST_WARMUP_S = 10e-3


# If a call of the first sample takes less than this share of the warm-up's estimate, warm-up timed a compilation.
STILL_WARMING = 0.5


@dataclass
class Samples:
    """The measurements of one trial, in seconds.

    Each value of `samples_s` is the mean of `calls_per_sample` calls. On the CPU, `sampling_s` is the time of all these
    calls and of what lies between samples, `between_s`. `during` holds the interference counted while the samples were
    taken, without warm-up (see `Usage`).
    """

    samples_s: list[float] = field(default_factory=list)
    calls_per_sample: int = 1
    warmup_s: float = 0.0
    sampling_s: float = 0.0
    between_s: float | None = None
    clock_s: float = 0.0
    during: dict[str, Any] = field(default_factory=dict)


def take_samples(
    call: Call,
    sync: Call,
    budget_s: float,
    clock: Callable[[], float] = time.perf_counter,
    count: Callable[[], Usage] = usage,
    renew: Call = lambda: None,
    singly: bool = False,
    between: Call = lambda: None,
    called_s: float = 0.0,
) -> Samples:
    """Take samples of `call` for about `budget_s` seconds, and at least `MIN_SAMPLES`.

    An earlier call took `called_s` seconds. If that is as long as a whole warm-up, it was one.

    `sync` waits until a call's work is done. Before each sample, `renew` changes the input; this is not timed. With
    `singly`, each sample is one call, however short. Between two samples of at least `LONG_SAMPLE_S`, `between` is
    called; it may use the caches.
    """
    result, between_s = Samples(clock_s=clock_cost(clock)), 0.0
    gc.disable()  # a collection inside a sample is Python's cost, not the layer's
    try:
        is_warm = steady_or_after(budget_s)
        times, result.warmup_s = ([], 0.0) if is_warm([], called_s) else warm_up(call, sync, is_warm, clock)
        # Subtract the reading of the clock, which would make short calls look long, and then samples short.
        per_call = max(median(times[-STEADY_CALLS:] or [called_s]) - result.clock_s, LEAST_CALL_S)
        least_sample_s = max(MIN_SAMPLE_S, CLOCK_SHARE * result.clock_s)
        calls = 1 if singly else math.ceil(least_sample_s / per_call)
        # Reading the machine's counters takes CPU time after the process's own are read: it is in both spans.
        begin, before = clock(), count()
        start = end = begin
        while len(result.samples_s) < MIN_SAMPLES or end - begin < budget_s:
            if end - start >= LONG_SAMPLE_S:
                between()
            renew()
            last_end, start = end, clock()
            for _ in range(calls):
                call()
            sync()
            end = clock()
            between_s += start - last_end
            result.samples_s.append((end - start) / calls)
            if len(result.samples_s) == 1 and result.samples_s[0] < STILL_WARMING * per_call:
                # The first call took the whole warm-up. It compiled, for example, and took longer than later calls.
                again = take_samples(call, sync, budget_s, clock, count, renew, singly, between)
                again.warmup_s += result.warmup_s + end - start
                return again
        result.calls_per_sample = calls
        result.sampling_s, result.between_s = end - begin, between_s
        result.during = count().since(before)
    finally:
        gc.enable()
    return result


def clock_cost(clock: Callable[[], float]) -> float:
    """Seconds that one reading of the clock takes: the mean over many readings."""
    readings = [clock() for _ in range(201)]
    return max(0.0, (readings[-1] - readings[0]) / (len(readings) - 1))


def is_steady(times: Sequence[float]) -> bool:
    """Whether the fastest of the last `STEADY_CALLS` calls beats the ones before by at most the share `STEADY`."""
    recent, before = times[-STEADY_CALLS:], times[:-STEADY_CALLS]
    return bool(before) and min(recent) >= (1 - STEADY) * min(before)


def steady_or_after(budget_s: float) -> IsWarm:
    """The end of a warm-up: calls are steady, or its share of the `budget_s` seconds of sampling has passed."""
    most_s = max(LEAST_WARMUP_S, WARMUP_SHARE * budget_s)
    return lambda times, elapsed_s: elapsed_s >= most_s or is_steady(times)


def rounded(value: Any) -> Any:
    """Round numbers, also those in a list, to six significant digits, since a clock has no more."""
    if isinstance(value, list):
        return [rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
