"""Time a call on a GPU by the rules of the CPU's timing, but with the GPU's own clock and a cold L2 cache.

cold first call | warm-up … steady | held samples, or free ones | calls back to back

Times are between CUDA events, which resolve about half a microsecond ("CUDA Runtime API", Event Management). Their
cost is `clock_s`, the time between two events with nothing in between, which is subtracted. So a single sample under
50 µs is uncertain by more than a hundredth. The median of many samples is more precise; their minimum is not.

Before each call the L2 cache is filled with other data. Each call then finds its weights and input in memory, as a call
of a layer inside a network does. Therefore a sample is one call.
"""

import gc
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from harness.trial.environment import NvmlGauge, addresses, warm_up
from harness.trial.timing import sampler
from harness.trial.timing.sampler import MIN_SAMPLES, Samples, rounded

# No NVIDIA GPU has a higher clock rate. Used if NVML does not report the highest clock rate of this GPU.
_HIGHEST_SM_CLOCK_MHZ = 3200.0


class TorchDevice:
    """Torch's current CUDA device: one queue, the current stream, executed in order. A test's device simulates time.

    All methods except `sync` return before the GPU reaches what they enqueue. Create the device before the samples,
    because it allocates a buffer.
    """

    def __init__(self) -> None:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        self.gauge = NvmlGauge(addresses(properties))
        self.l2_bytes = int(properties.L2_cache_size)
        self._buffer = torch.empty(self.l2_bytes, dtype=torch.uint8, device="cuda")
        self._cycles_per_s = 1e6 * (self.gauge.sm_clock_max_mhz or _HIGHEST_SM_CLOCK_MHZ)

    def mark(self) -> torch.cuda.Event:
        """Enqueue an event and return it."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def flush_l2(self) -> None:
        """Enqueue a write of as many bytes as the L2 cache holds.

        The cache's lines are then dirty, and the timed call writes them back.
        """
        self._buffer.zero_()

    def hold(self, seconds: float) -> None:
        """Hold the queue for at least `seconds` once the GPU reaches this point: later entries wait.

        One thread spins for a number of SM cycles. The number is computed for the highest clock rate. At a lower rate
        the spin takes longer, never shorter. A measured rate would be too low if the clock rate rose afterwards, as it
        does on a GPU that was idle.

        A spin ends by itself. A gate that the host opens could be held exactly as long as needed. But if a call fills
        the queue or waits for the GPU, the host would be stuck before it could open the gate.
        """
        torch.cuda._sleep(max(1, int(seconds * self._cycles_per_s)))

    def sync(self) -> None:
        """Wait until the queue is empty."""
        torch.cuda.synchronize()


# The GPU's queue is held until all samples of a batch are enqueued. If this is impossible, the queue runs free.
#
# held   host  | hold | flush start call end | flush start call end | … then wait
#        GPU          spins ───────────────────────────────────────→ flush call, flush call, …
# free   host  | flush, wait | start call end, wait

# The hold lasts `HOLD_MARGIN` times the expected enqueuing time. It doubles after each batch in a row without a held
# sample. It never exceeds `LONGEST_HOLD_S`, because some drivers stop a kernel after a few seconds.
HOLD_MARGIN = 1.5
LONGEST_HOLD_S = 1.0
# After `MISSES` batches in a row without a held sample, a call counts as one that cannot be held. A call that was held
# before has probably met a busy host, and gets `MISSES_ONCE_HELD` batches.
MISSES = 2
MISSES_ONCE_HELD = 6
# Estimates of the host's time besides the calls. Once a batch, it enqueues the hold and wakes up from the last wait.
# Once a sample, it changes the input, flushes the cache and enqueues events; a measured value replaces this estimate.
BESIDE_BATCH_S = 50e-6
BESIDE_CALL_S = 50e-6
# One wait serves a batch. The queue has room for `LARGEST_BATCH` short calls. A batch above the share `BATCH_SHARE` of
# the budget would leave too few batches to sample different moments of the machine.
LARGEST_BATCH = 64
BATCH_SHARE = 0.2

Clock = Callable[[], float]


@dataclass
class Held:
    """Seconds per call of the held samples. `taken` also counts the samples that were not held and are left out."""

    gpu_s: list[float]
    host_s: list[float]
    taken: int


@dataclass
class Free:
    """Seconds per call from an idle GPU.

    `gpu_s` is the whole call, and `host_s` is the host's part. The GPU's remaining work after the host's part takes
    `tail_s`.
    """

    gpu_s: list[float]
    host_s: list[float]
    tail_s: list[float]


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


@dataclass
class Sampling:
    """The ways to sample one call on one device. Before each sample, `renew` enqueues a change of the input."""

    call: Callable[[], Any]
    device: TorchDevice
    clock: Clock = time.perf_counter
    renew: Callable[[], None] = lambda: None

    def warm_up(self, share_s: float, into: Samples) -> tuple[float, float]:
        """Call until steady or out of time. Return `(seconds of a warm call, the host's seconds to enqueue it)`."""
        call, clock = self.call, self.clock
        hosts: list[float] = []

        def enqueue() -> None:
            start = clock()
            call()
            hosts.append(clock() - start)

        def is_warm(walls: list[float], elapsed_s: float) -> bool:
            started = len(walls) >= LEAST_WARMUP_CALLS and elapsed_s >= LEAST_WARMUP_S
            return started and (elapsed_s >= share_s or sampler.is_steady(walls))

        walls, into.warmup_s = warm_up(enqueue, self.device.sync, is_warm, clock)
        into.first_call_s, into.warmup_calls = walls[0], len(walls)
        return median(walls[1:][-sampler.STEADY_CALLS :]), min(hosts[1:])

    def held(self, budget_s: float, host_s: float, meanwhile: Callable[[], None]) -> Held:
        """Take held samples for about `budget_s` seconds, fewer than `MIN_SAMPLES` if the call cannot be held.

        While the GPU is held, the host can enqueue calls at its own pace. The time between their events is then the
        GPU's alone, because no launch is late. Whether the hold was long enough is not assumed but observed. When a
        sample's last event is in the queue, the GPU must not have reached the event just after the hold. This is proof.
        It also shows that the queue was never full, since a full queue accepts nothing until the GPU continues.

        `host_s` is an estimate of the host's seconds to enqueue a call. `meanwhile` is called while the GPU works.
        """
        held, clock = Held([], [], 0), self.clock
        largest, count, misses, per_sample_s = LARGEST_BATCH, 1, 0, host_s + BESIDE_CALL_S
        begin = now = clock()
        while len(held.gpu_s) < MIN_SAMPLES or now - begin < budget_s:
            hold_s = min(LONGEST_HOLD_S, HOLD_MARGIN * 2**misses * (BESIDE_BATCH_S + count * per_sample_s))
            gpu_s, enqueuing_s, good = self._batch(count, hold_s, meanwhile)
            before, now = now, clock()
            held.taken += count
            held.gpu_s += gpu_s[: len(good)]
            held.host_s += good
            if not good:
                misses, count = misses + 1, 1
                if misses == (MISSES_ONCE_HELD if held.gpu_s else MISSES):
                    break
                continue
            misses = 0
            if len(good) == count:
                per_sample_s = enqueuing_s / count
            else:
                largest = max(len(good), count // 2)  # half as many fitted before: if fewer did now, the host was slow
            room = int(BATCH_SHARE * budget_s / (now - before) * count)
            count = max(1, min(2 * count, largest, room))
        return held

    def _batch(
        self, count: int, hold_s: float, meanwhile: Callable[[], None]
    ) -> tuple[list[float], float, list[float]]:
        """Take one batch of `count` samples in a hold.

        Return `(GPU seconds of every sample, host seconds for the whole batch, host seconds of each held call)`.
        """
        call, device, clock, renew = self.call, self.device, self.clock, self.renew
        begin = clock()
        device.hold(hold_s)
        released = device.mark()
        pairs, host_s = [], []
        for _ in range(count):
            renew()
            device.flush_l2()
            start = device.mark()
            before = clock()
            call()
            after = clock()
            pairs.append((start, device.mark()))
            # A released queue is not held again, so the held samples are the first ones.
            if not released.query():
                host_s.append(after - before)
        enqueuing_s = clock() - begin
        meanwhile()
        device.sync()
        return [start.elapsed_time(end) / 1e3 for start, end in pairs], enqueuing_s, host_s

    def free(self, budget_s: float, meanwhile: Callable[[], None]) -> Free:
        """Take samples for about `budget_s` seconds, at least `MIN_SAMPLES`.

        Each starts on an idle GPU and includes launch costs. This is for calls that cannot be enqueued completely while
        the GPU waits. A call of thousands of launches overfills the queue, which has about a thousand entries (CUDA
        does not document the number). A call that itself waits for the GPU would wait until the hold ends.
        """
        call, device, clock, renew = self.call, self.device, self.clock, self.renew
        free = Free([], [], [])
        begin = clock()
        while len(free.gpu_s) < MIN_SAMPLES or clock() - begin < budget_s:
            renew()
            device.flush_l2()
            device.sync()
            idle = clock()
            device.mark()
            device.sync()
            wait_s = clock() - idle  # the duration of a wait without pending work
            start = device.mark()
            before = clock()
            call()
            after = clock()
            end = device.mark()
            device.sync()
            done = clock()
            free.gpu_s.append(start.elapsed_time(end) / 1e3)
            free.host_s.append(after - before)
            free.tail_s.append(max(0.0, done - after - wait_s))
            meanwhile()
        return free

    def back_to_back(self, budget_s: float, warm_s: float) -> float:
        """Seconds per call when the host waits only at the end."""
        count = max(MIN_SAMPLES, math.ceil(budget_s / warm_s))
        call, clock = self.call, self.clock
        self.device.sync()
        begin = clock()
        for _ in range(count):
            call()
        self.device.sync()
        return (clock() - begin) / count


def sample_cuda(
    call: Callable[[], Any],
    budget_s: float,
    device: TorchDevice,
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
    result, sampling = Samples(), Sampling(call, device, clock, renew)
    gc.collect()
    gc.disable()  # as on the CPU: a collection inside a sample is not the layer's cost
    try:
        warm_s, warm_host_s = sampling.warm_up(sampler.WARMUP_SHARE * budget_s, result)
        result.clock_s = _empty_pair_s(device)
        device.gauge.read()
        meanwhile = _now_and_then(device.gauge.read, budget_s / _READINGS, clock)
        begin = clock()
        held = sampling.held(budget_s, warm_host_s, meanwhile)
        if len(held.gpu_s) >= MIN_SAMPLES:
            result.samples_s = _without_clock(held.gpu_s, result.clock_s)
            host_s = median(held.host_s)
            extras = {
                "queue_held": len(held.gpu_s) / held.taken,
                "host_s": rounded(host_s),
                "host_bound": host_s > median(held.gpu_s),
            }
        else:
            free = sampling.free(budget_s - (clock() - begin), meanwhile)
            result.samples_s = _without_clock(free.gpu_s, result.clock_s)
            extras = {"queue_held": 0.0, **_host_when_free(free.host_s, free.tail_s)}
        result.sampling_s = clock() - begin
        extras["wall_call_s"] = rounded(sampling.back_to_back(BACK_TO_BACK_SHARE * budget_s, warm_s))
        device.gauge.read()
    finally:
        gc.enable()
    return result, {**extras, "l2_bytes": device.l2_bytes, **device.gauge.facts()}


def _without_clock(gpu_s: list[float], clock_s: float) -> list[float]:
    """Subtract the cost of a pair of events from each sample. No result is below `LEAST_CALL_S`."""
    return [max(seconds - clock_s, sampler.LEAST_CALL_S) for seconds in gpu_s]


def _empty_pair_s(device: TorchDevice) -> float:
    """The time between two events with nothing in between, in seconds."""
    for _ in range(2):  # the first round loads the kernels of flush and hold
        device.flush_l2()
        device.hold(_EMPTY_HOLD_S)
        pairs = [(device.mark(), device.mark()) for _ in range(_EMPTY_PAIRS)]
        device.sync()
    return median(start.elapsed_time(end) / 1e3 for start, end in pairs)


def _host_when_free(host_s: list[float], tail_s: list[float]) -> dict[str, Any]:
    """`host_s` and `host_bound` of free samples.

    A host ahead of the GPU leaves much of the work for the wait. It may also have waited for room in the queue, for an
    unknown time. So its `host_s` is None. A host that was not ahead never waited, unless the call itself waits for the
    GPU. Calls of that kind count as bound by the host too.
    """
    host, tail = median(host_s), median(tail_s)
    bound = tail <= TAIL_SHARE * (host + tail)
    return {"host_s": rounded(host) if bound else None, "host_bound": bound}


def _now_and_then(do: Callable[[], None], every_s: float, clock: Clock) -> Callable[[], None]:
    """A function that calls `do` if at least `every_s` seconds have passed since the last time."""
    last = clock()

    def perhaps() -> None:
        nonlocal last
        if clock() - last >= every_s:
            do()
            last = clock()

    return perhaps
