"""Time a call on a GPU: by the rules of the CPU's clock, but on the GPU's own.

cold first call | warm-up … steady | held samples, or free ones | calls back to back

Times are between CUDA events, which resolve about half a microsecond ("CUDA Runtime API", Event Management) and cost
what `clock_s` says, the time between two with nothing in between, which is taken off. Under 50 µs a single sample
so is uncertain by more than a hundredth; the median of many is better than that, their minimum is not.
"""

import gc
import math
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from harness.trial.timing.clock import LEAST_CALL_S, MIN_SAMPLES, STEADY_CALLS, WARMUP_SHARE, Samples, steady
from harness.trial.timing.cuda.device import Device
from harness.trial.timing.cuda.queue import Clock, sample_free, sample_held

# A GPU at rest clocks down, and takes some tens of milliseconds of work to come up again.
LEAST_WARMUP_S = 0.05
# The first call loads and compiles what it needs; its times say nothing of the next.
LEAST_WARMUP_CALLS = 2
# Share of the budget for calls back to back, beside the samples.
BACK_TO_BACK_SHARE = 0.2
# A free call's time is the host's if no more than this share of it is left to wait for when the host is done.
TAIL_SHARE = 0.05
# Pairs of events with nothing in between, and how long to hold the GPU while they are enqueued.
_EMPTY_PAIRS = 15
_EMPTY_HOLD_S = 0.5e-3
# Readings of the GPU's gauge during the samples, about; one before and one after them beside.
_READINGS = 4


def sample_cuda(
    call: Callable[[], Any],
    budget_s: float,
    device: Device,
    clock: Clock = time.perf_counter,
    renew: Callable[[], None] = lambda: None,
) -> tuple[Samples, dict[str, Any]]:
    """Samples of `call` for about `budget_s` seconds, at least `MIN_SAMPLES`, and what explains them.

    `renew` enqueues a change of the input before each sample, outside its events.

    Beside the gauge's facts (`NvmlGauge.facts`):

    - `queue_held`: share of the samples taken that provably began only when all was enqueued. Those that did not are
      left out. At 0.0 the call could not be held: `samples_s` then are from an idle GPU, launch costs included.
    - `host_s`: the host's seconds to enqueue a call, None where it was never seen free of waiting for the GPU.
    - `host_bound`: whether that is more than the GPU needs. A training loop then sees `wall_call_s` and not
      `samples_s`, which, if held, is what the GPU needs and would be had with launches for nothing (a CUDA graph).
      Of a call that could not be held, whether the GPU was done as soon as the host was.
    - `wall_call_s`: seconds a call, many of them back to back with one wait at the end, their cache warm.
    - `l2_bytes`: how much is written before each sample, to have the L2 cache cold.
    """
    result = Samples()
    gc.collect()
    gc.disable()  # as on the CPU
    try:
        warm_s, warm_host_s = _warm_up(call, device, WARMUP_SHARE * budget_s, clock, result)
        result.clock_s = _empty_pair_s(device)
        device.gauge.read()
        meanwhile = _now_and_then(device.gauge.read, budget_s / _READINGS, clock)
        begin = clock()
        held = sample_held(call, device, budget_s, warm_host_s, clock, meanwhile, renew)
        if len(held.gpu_s) >= MIN_SAMPLES:
            result.samples_s = _without_clock(held.gpu_s, result.clock_s)
            extras = {"queue_held": len(held.gpu_s) / held.taken, **_host_when_held(held.gpu_s, held.host_s)}
        else:
            free = sample_free(call, device, budget_s - (clock() - begin), clock, meanwhile, renew)
            result.samples_s = _without_clock(free.gpu_s, result.clock_s)
            extras = {"queue_held": 0.0, **_host_when_free(free.host_s, free.tail_s)}
        result.sampling_s = clock() - begin
        extras["wall_call_s"] = _back_to_back(call, device, BACK_TO_BACK_SHARE * budget_s, warm_s, clock)
        device.gauge.read()
    finally:
        gc.enable()
    return result, {**extras, "l2_bytes": device.l2_bytes, **device.gauge.facts()}


def _warm_up(
    call: Callable[[], Any], device: Device, share_s: float, clock: Clock, into: Samples
) -> tuple[float, float]:
    """Call until steady or out of time; `(a warm call's seconds, the host's to enqueue it)`."""
    walls: list[float] = []
    hosts: list[float] = []
    begin = clock()
    while True:
        start = clock()
        call()
        enqueued = clock()
        device.sync()
        now = clock()
        walls.append(now - start)
        hosts.append(enqueued - start)
        if len(walls) < LEAST_WARMUP_CALLS or now - begin < LEAST_WARMUP_S:
            continue
        if now - begin >= share_s or steady(walls):
            break
    into.first_call_s = walls[0]
    into.warmup_calls = len(walls)
    into.warmup_s = now - begin
    return median(walls[1:][-STEADY_CALLS:]), min(hosts[1:])


def _without_clock(gpu_s: list[float], clock_s: float) -> list[float]:
    """Samples less what a pair of events reads by itself, and never less than the clock can tell from nothing."""
    return [max(seconds - clock_s, LEAST_CALL_S) for seconds in gpu_s]


def _empty_pair_s(device: Device) -> float:
    """What a pair of events with nothing in between reads."""
    for _ in range(2):  # the first round loads the kernels of flush and hold
        device.flush_l2()
        device.hold(_EMPTY_HOLD_S)
        pairs = [(device.mark(), device.mark()) for _ in range(_EMPTY_PAIRS)]
        device.sync()
    return median(start.elapsed_time(end) / 1e3 for start, end in pairs)


def _back_to_back(call: Callable[[], Any], device: Device, budget_s: float, warm_s: float, clock: Clock) -> float:
    """Seconds a call when the host waits only at the end."""
    count = max(MIN_SAMPLES, math.ceil(budget_s / warm_s))
    device.sync()
    begin = clock()
    for _ in range(count):
        call()
    device.sync()
    return _six_digits((clock() - begin) / count)


def _host_when_held(gpu_s: list[float], host_s: list[float]) -> dict[str, Any]:
    host = median(host_s)
    return {"host_s": _six_digits(host), "host_bound": host > median(gpu_s)}


def _host_when_free(host_s: list[float], tail_s: list[float]) -> dict[str, Any]:
    """A host that was ahead of the GPU left it much to do; it then also waited for room in the queue, nobody knows how
    long. One that was not ahead never waited, unless the call itself waits for the GPU: which is bound by the host too.
    """
    host, tail = median(host_s), median(tail_s)
    bound = tail <= TAIL_SHARE * (host + tail)
    return {"host_s": _six_digits(host) if bound else None, "host_bound": bound}


def _now_and_then(do: Callable[[], None], every_s: float, clock: Clock) -> Callable[[], None]:
    """`do`, but only when `every_s` seconds have passed since it was last done."""
    last = clock()

    def perhaps() -> None:
        nonlocal last
        if clock() - last >= every_s:
            do()
            last = clock()

    return perhaps


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")
