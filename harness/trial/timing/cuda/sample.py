"""Time a call on a GPU by the rules of the CPU's timing, but with the GPU's own clock.

cold first call | warm-up … steady | held samples, or free ones | calls back to back

Times are between CUDA events, which resolve about half a microsecond ("CUDA Runtime API", Event Management). Their
cost is `clock_s`, the time between two events with nothing in between, which is subtracted. So a single sample under
50 µs is uncertain by more than a hundredth. The median of many samples is more precise; their minimum is not.
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

# An idle GPU lowers its clock rate, and needs some tens of milliseconds of work to raise it again.
LEAST_WARMUP_S = 0.05
# The first call loads and compiles what it needs, so its times do not predict those of the next call.
LEAST_WARMUP_CALLS = 2
# Share of the budget for calls back to back, in addition to the samples.
BACK_TO_BACK_SHARE = 0.2
# A free call is bound by the host if the wait after the host's part is at most this share of the call's time.
TAIL_SHARE = 0.05
# Pairs of events with nothing in between, and how long to hold the GPU while they are enqueued.
_EMPTY_PAIRS = 15
_EMPTY_HOLD_S = 0.5e-3
# The approximate number of gauge readings during the samples. One before and one after the samples are added.
_READINGS = 4


def sample_cuda(
    call: Callable[[], Any],
    budget_s: float,
    device: Device,
    clock: Clock = time.perf_counter,
    renew: Callable[[], None] = lambda: None,
) -> tuple[Samples, dict[str, Any]]:
    """Take samples of `call` for about `budget_s` seconds, at least `MIN_SAMPLES`. Return them and what explains them.

    `renew` enqueues a change of the input before each sample, outside its events.

    The explanation consists of the gauge's facts (`NvmlGauge.facts`) and:

    - `queue_held`: the share of samples that provably began only after all was enqueued. The other samples are left
      out. At 0.0 the call could not be held. Then `samples_s` are from an idle GPU and include launch costs.
    - `host_s`: the host's seconds to enqueue a call. None if this was never observed without a wait for the GPU.
    - `host_bound`: whether the host needs longer than the GPU. A training loop then takes `wall_call_s` per call. Held
      `samples_s` are what the GPU needs, as with launches that cost nothing (a CUDA graph). If the call could not be
      held, `host_bound` is whether the GPU was done as soon as the host.
    - `wall_call_s`: seconds per call of many calls back to back, with a warm cache and one wait at the end.
    - `l2_bytes`: the number of bytes written before each sample to make the L2 cache cold.
    """
    result = Samples()
    gc.collect()
    gc.disable()  # as on the CPU: a collection inside a sample is not the layer's cost
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
    """Call until steady or out of time. Return `(seconds of a warm call, the host's seconds to enqueue it)`."""
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
    """Subtract the cost of a pair of events from each sample. No result is below `LEAST_CALL_S`."""
    return [max(seconds - clock_s, LEAST_CALL_S) for seconds in gpu_s]


def _empty_pair_s(device: Device) -> float:
    """The time between two events with nothing in between, in seconds."""
    for _ in range(2):  # the first round loads the kernels of flush and hold
        device.flush_l2()
        device.hold(_EMPTY_HOLD_S)
        pairs = [(device.mark(), device.mark()) for _ in range(_EMPTY_PAIRS)]
        device.sync()
    return median(start.elapsed_time(end) / 1e3 for start, end in pairs)


def _back_to_back(call: Callable[[], Any], device: Device, budget_s: float, warm_s: float, clock: Clock) -> float:
    """Seconds per call when the host waits only at the end."""
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
    """`host_s` and `host_bound` of free samples.

    A host ahead of the GPU leaves much of the work for the wait. It may also have waited for room in the queue, for an
    unknown time. So its `host_s` is None. A host that was not ahead never waited, unless the call itself waits for the
    GPU. Calls of that kind count as bound by the host too.
    """
    host, tail = median(host_s), median(tail_s)
    bound = tail <= TAIL_SHARE * (host + tail)
    return {"host_s": _six_digits(host) if bound else None, "host_bound": bound}


def _now_and_then(do: Callable[[], None], every_s: float, clock: Clock) -> Callable[[], None]:
    """A function that calls `do` if at least `every_s` seconds have passed since the last time."""
    last = clock()

    def perhaps() -> None:
        nonlocal last
        if clock() - last >= every_s:
            do()
            last = clock()

    return perhaps


def _six_digits(value: float) -> float:
    return float(f"{value:.6g}")
