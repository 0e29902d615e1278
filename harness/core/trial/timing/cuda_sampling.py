"""The ways to sample one call on a GPU: held, hot, free, back to back and under load."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress, pairwise
from statistics import fmean, linear_regression, median, quantiles
from typing import Any

from harness.core.stats.estimate import median_between_ticks

from ..device_kinds import TorchDevice
from ..environment import warm_up
from . import sampler
from .sampler import MIN_SAMPLES, Samples, rounded

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
# before has probably met a busy host, and gets `MISSES_ONCE_HELD` batches. So does a graph, as nothing is left to try.
MISSES = 2
MISSES_ONCE_HELD = 6
# An estimate of the host's time besides samples. Once a batch, it enqueues the hold and wakes up from the last wait.
BESIDE_BATCH_S = 50e-6
# The host's time to enqueue a sample is that of so many untimed ones. A long call is rehearsed less often.
REHEARSALS = 5
# One wait serves a batch. The queue has room for `LARGEST_BATCH` short calls. A batch above the share `BATCH_SHARE` of
# the budget would leave too few batches to sample different moments of the machine.
LARGEST_BATCH = 64
BATCH_SHARE = 0.2
# Hot calls follow each other without a flush, this many in one sample.
HOT_CALLS = 8
# An idle GPU lowers its clock rate, and needs some tens of milliseconds of work to raise it again. Under load, power
# and heat lower it once more. Warm-up lasts until the clock rate changed by less than `STEADY_CLOCK` in the second half
# of it, at most `LONGEST_WARMUP_S` seconds.
LEAST_WARMUP_S = 0.05
LONGEST_WARMUP_S = 1.0
STEADY_CLOCK = 0.01
# Warm-up of a clock rate that still changes goes on; a look at it is due when this much time has passed.
_LOOK_EVERY_S = 5e-3
# The first call loads and compiles what it needs, so its times do not predict those of the next call.
LEAST_WARMUP_CALLS = 2
# The clock rate is measured by a kernel of this many cycles, some 0.2 ms: the GPU's own measurement, as NVML's is late.
# The clock of events has ticks of up to 1 µs, which are half a per cent of it.
CLOCK_CYCLES = 400_000
# An idle GPU is held until the measurement of its clock rate is enqueued.
_CLOCK_HOLD_S = 2e-4
# A batch counts as throttled if the clock rate at its end was below this share of the trial's upper quartile.
THROTTLED = 0.9
# A free call is bound by the host if the wait after the host's part is at most this share of the call's time.
TAIL_SHARE = 0.05
# Other facts than energy are read this often while calls run back to back.
_LOAD_READINGS = 4
# The counter of energy is read once in a part of the calls, which takes about this long. If the GPU ran out of calls
# before the end of a reading, the parts become twice as long, up to the longest. A longer part makes a renewal of the
# counter less certain. A query took an H200 3.6 ms at rest, and probably more at work.
_LOAD_PART_S, _LONGEST_PART_S = 5e-3, 40e-3
# The idle power during readings would be in the energy of a call by about as much.
_IDLE_SHARE = 0.05

Clock = Callable[[], float]


@dataclass
class Held:
    """Seconds per call of the held samples, and the clock rate at the end of each one's batch.

    `taken` also counts the samples that were not held and are left out. A batch of `most` samples fits into the queue.
    Enqueuing a whole sample, with the flush and the change of the input, takes the host `sample_s`. The call takes
    `hot_s` with a warm cache, and `clean_s` with a clean one; None if unknown.
    """

    gpu_s: list[float] = field(default_factory=list)
    host_s: list[float] = field(default_factory=list)
    clock_hz: list[float] = field(default_factory=list)
    taken: int = 0
    most: int = 0
    sample_s: float = 0.0
    hot_s: float | None = None
    clean_s: float | None = None

    @property
    def enough(self) -> bool:
        """Whether the call could be held."""
        return len(self.gpu_s) >= MIN_SAMPLES

    def unthrottled(self) -> "Held":
        """The samples of batches at whose end the clock rate was not lowered. Most samples decide what is usual."""
        if len(self.clock_hz) < 2:
            return self
        least = THROTTLED * quantiles(self.clock_hz, n=4, method="inclusive")[2]
        is_usual = [hz >= least for hz in self.clock_hz]
        gpu_s, host_s, clock_hz = (list(compress(of, is_usual)) for of in (self.gpu_s, self.host_s, self.clock_hz))
        return replace(self, gpu_s=gpu_s, host_s=host_s, clock_hz=clock_hz)


@dataclass
class Free:
    """Seconds per call from an idle GPU.

    `gpu_s` is the whole call, and `host_s` is the host's part. The GPU's remaining work after the host's part takes
    `tail_s`.
    """

    gpu_s: list[float]
    host_s: list[float]
    tail_s: list[float]

    @property
    def host_bound(self) -> bool:
        """Whether the GPU was done as soon as the host."""
        host, tail = median(self.host_s), median(self.tail_s)
        return tail <= TAIL_SHARE * (host + tail)


@dataclass
class Sampling:
    """The ways to sample one call on one device. Before each sample, `renew` enqueues a change of the input.

    The cache is then as `Case.cache` says. An empty pair of events reads `clock_s`, one around a spin of a single cycle
    at least `spin_s`. The GPU begins each call `launch_s` later than it begins a kernel. After `misses` batches in a
    row without a held sample, the call counts as one that cannot be held.
    """

    call: Callable[[], Any]
    device: TorchDevice
    clock: Clock = time.perf_counter
    renew: Callable[[], None] = lambda: None
    clock_s: float = 0.0
    spin_s: float = math.inf
    launch_s: float = 0.0
    cache: str = "cold"
    misses: int = MISSES

    def warm_up(self, share_s: float, into: Samples) -> float:
        """Take untimed samples until steady or out of time. Return the host's seconds to enqueue one.

        They are whole samples, because the kernels of a flush and of a change of the input are loaded on first use too.
        """
        clock = self.clock
        hosts = []
        rates = list[tuple[float, float]]()

        def is_warm(walls: list[float], elapsed_s: float) -> bool:
            if not rates or elapsed_s - rates[-1][0] >= _LOOK_EVERY_S:
                rates.append((elapsed_s, self.clock_hz() or 1.0))
            if len(walls) < LEAST_WARMUP_CALLS or elapsed_s < LEAST_WARMUP_S:
                return False
            is_steady = _is_steady(rates) and (elapsed_s >= share_s or sampler.is_steady(walls))
            return is_steady or elapsed_s >= LONGEST_WARMUP_S

        _, into.warmup_s = warm_up(lambda: hosts.append(self._enqueuing_s()), self.device.sync, is_warm, clock)
        return median(hosts[1:])

    def rehearse(self) -> float:
        """Take a few untimed samples. Return the host's seconds to enqueue one."""
        hosts = list[float]()
        begin = self.clock()
        while len(hosts) < LEAST_WARMUP_CALLS or (len(hosts) < REHEARSALS and self.clock() - begin < LEAST_WARMUP_S):
            hosts.append(self._enqueuing_s())
            self.device.sync()
        return median(hosts[1:])  # the first one loads what it needs

    def _enqueuing_s(self) -> float:
        start = self.clock()
        self._sample()
        return self.clock() - start

    def _sample(self, clean: bool = False) -> tuple[Any, Any, float]:
        """Enqueue one sample. Return the events around its call, and the host's seconds to enqueue the call."""
        self.renew()
        self._flush(clean)
        start = self.device.mark()
        before = self.clock()
        self.call()
        after = self.clock()
        return start, self.device.mark(), after - before

    def clock_hz(self) -> float | None:
        """The GPU's present clock rate; None if the device cannot measure it.

        An idle GPU would reach the first event before the host has launched the kernel, so it is held.
        """
        if "hold" not in self.device.lacks:
            self.device.hold(_CLOCK_HOLD_S)
        rate = self._enqueue_clock()
        self.device.sync()
        return rate()

    def _enqueue_clock(self) -> Callable[[], float | None]:
        """Enqueue a measurement of the clock rate. Its result is due once the GPU has reached it.

        What a spin takes beside its cycles is the shortest time seen so far. A late launch makes it longer, and so does
        a GPU that has not clocked up: on an H100, rates were told up to 16 % too high.
        """
        if "spin" in self.device.lacks:
            return lambda: None
        start = self.device.mark()
        self.device.spin(CLOCK_CYCLES)
        end = self.device.mark()
        self.device.spin(1)
        after = self.device.mark()

        def rate_hz() -> float:
            self.spin_s = min(self.spin_s, end.elapsed_time(after) / 1e3)
            return CLOCK_CYCLES / max(start.elapsed_time(end) / 1e3 - self.spin_s, sampler.LEAST_CALL_S)

        return rate_hz

    def held(self, budget_s: float, sample_s: float, clean: bool = False, least: int = MIN_SAMPLES) -> Held:
        """Take held samples for about `budget_s` seconds, fewer than `least` if the call cannot be held.

        While the GPU is held, the host can enqueue calls at its own pace. The time between their events is then the
        GPU's alone, because no launch is late. Whether the hold was long enough is not assumed but observed. When a
        sample's last event is in the queue, the GPU must not have reached the event just after the hold. This is proof.
        It also shows that the queue was never full, since a full queue accepts nothing until the GPU continues.

        `sample_s` is an estimate of the host's seconds to enqueue a sample. With `clean`, the cache is clean instead of
        `cache`.
        """
        held, clock = Held(sample_s=sample_s), self.clock
        if self.lacks_for_held(clean):
            return held
        largest, count, misses = LARGEST_BATCH, 1, 0
        begin = now = clock()
        while len(held.gpu_s) < least or now - begin < budget_s:
            hold_s = min(LONGEST_HOLD_S, HOLD_MARGIN * 2**misses * (BESIDE_BATCH_S + count * held.sample_s))
            gpu_s, enqueuing_s, good, clock_hz = self._batch(count, hold_s, clean)
            before, now = now, clock()
            held.taken += count
            held.gpu_s += gpu_s[: len(good)]
            held.host_s += good
            held.clock_hz += [] if clock_hz is None else [clock_hz] * len(good)
            held.most = max(held.most, len(good))
            if not good:
                misses, count = misses + 1, 1
                if misses == (MISSES_ONCE_HELD if held.gpu_s else self.misses):
                    break
                continue
            misses = 0
            if len(good) == count:
                held.sample_s = enqueuing_s / count
            else:
                largest = max(len(good), count // 2)  # half as many fitted before: if fewer did now, the host was slow
            room = int(BATCH_SHARE * budget_s / (now - before) * count)
            count = max(1, min(2 * count, largest, room))
        return held

    def _batch(self, count: int, hold_s: float, clean: bool) -> tuple[list[float], float, list[float], float | None]:
        """Take one batch of `count` samples in a hold.

        Return `(GPU seconds of every sample, host seconds for the whole batch, host seconds of each held call, the
        clock rate in Hz at the end of the batch, if known)`.
        """
        device, clock = self.device, self.clock
        begin = clock()
        device.hold(hold_s)
        released = device.mark()
        pairs, host_s = [], []
        if self._is_hot(clean) and "spin" in device.lacks:
            self.call()  # what holds the queue then uses the cache
        for _ in range(count):
            start, end, took_s = self._sample(clean)
            pairs.append((start, end))
            # A released queue is not held again, so the held samples are the first ones.
            if not released.query():
                host_s.append(took_s)
        enqueuing_s = clock() - begin
        clock_hz = self._enqueue_clock()
        device.sync()
        return [self._between(start, end) for start, end in pairs], enqueuing_s, host_s, clock_hz()

    def lacks_for_held(self, clean: bool = False) -> str | None:
        """Why the device cannot take held samples. None if it can."""
        needed = ("hold",) if self._is_hot(clean) else ("hold", "flush")
        return next((self.device.lacks[part] for part in needed if part in self.device.lacks), None)

    def _is_hot(self, clean: bool) -> bool:
        return self.cache == "hot" and not clean

    def _flush(self, clean: bool = False) -> None:
        """Enqueue what leaves the cache as a sample shall find it, if the device can."""
        if not self._is_hot(clean) and "flush" not in self.device.lacks:
            self.device.flush_l2(clean or self.cache == "clean")

    def _between(self, start: Any, end: Any, calls: int = 1) -> float:
        """The seconds of each of the `calls` between two events, at least `LEAST_CALL_S`."""
        seconds = (start.elapsed_time(end) / 1e3 - self.clock_s) / calls - self.launch_s
        return max(seconds, sampler.LEAST_CALL_S)

    def hot(self, budget_s: float, host_s: float, gpu_s: float, most: int) -> float | None:
        """The GPU's seconds per call among calls that follow each other with a warm cache, None if never held.

        A call takes the host `host_s` and the GPU about `gpu_s`. At most `most` calls fit into the queue at once. One
        sample is enough of a call that takes longer than the budget.
        """
        if "hold" in self.device.lacks:
            return None
        again = 1 if "spin" in self.device.lacks else 0  # what holds the queue then uses the cache
        calls, begin = max(1, min(most, HOT_CALLS, int(budget_s / gpu_s))), self.clock()
        least = MIN_SAMPLES if gpu_s < budget_s else 1
        samples = list[float]()
        misses = 0
        while misses < MISSES_ONCE_HELD and (len(samples) < least or self.clock() - begin < budget_s):
            self.call()  # it leaves a warm cache, and the spin does not use the cache
            self.device.hold(min(LONGEST_HOLD_S, HOLD_MARGIN * 2**misses * (BESIDE_BATCH_S + (calls + again) * host_s)))
            (released, _), (start, end) = self._enqueue(again), self._enqueue(calls)
            was_held = not released.query()
            self.device.sync()
            if was_held:
                samples.append(self._between(start, end, calls))
                misses = 0
            else:
                misses, calls = misses + 1, max(1, calls // 2)
        return median_between_ticks(samples) if samples else None

    def free(self, budget_s: float) -> Free:
        """Take samples for about `budget_s` seconds, at least `MIN_SAMPLES`.

        Each starts on an idle GPU and includes launch costs. This is for calls that cannot be enqueued completely while
        the GPU waits. A call of thousands of launches overfills the queue, which has about a thousand entries (CUDA
        does not document the number). A call that itself waits for the GPU would wait until the hold ends.
        """
        device, clock = self.device, self.clock
        free, begin = Free([], [], []), clock()
        while len(free.gpu_s) < MIN_SAMPLES or clock() - begin < budget_s:
            self.renew()
            self._flush()
            device.sync()
            idle = clock()
            device.mark()
            device.sync()
            wait_s = clock() - idle  # the duration of a wait without pending work
            start = device.mark()
            before = clock()
            self.call()
            after = clock()
            end = device.mark()
            device.sync()
            done = clock()
            free.gpu_s.append(self._between(start, end))
            free.host_s.append(after - before)
            free.tail_s.append(max(0.0, done - after - wait_s))
        return free

    def back_to_back(self, budget_s: float, warm_s: float) -> float:
        """Seconds per call when the host waits only at the end: the median of some parts without the time of a wait."""
        call, clock, sync, walls = self.call, self.clock, self.device.sync, list[float]()
        count = math.ceil(budget_s / MIN_SAMPLES / warm_s)
        for calls in [0] * (1 + MIN_SAMPLES) + [count] * MIN_SAMPLES:
            begin = clock()
            for _ in range(calls):
                call()
            sync()
            walls.append(clock() - begin)
        return max(sampler.LEAST_CALL_S, (median(walls[-MIN_SAMPLES:]) - min(walls[1:-MIN_SAMPLES])) / count)

    def _enqueue(self, calls: int) -> tuple[Any, Any]:
        """Enqueue calls that follow each other. Return the events around them."""
        start = self.device.mark()
        for _ in range(calls):
            self.call()
        return start, self.device.mark()

    def under_load(self, seconds: float, warm_s: float) -> dict[str, float]:
        """Read the gauge while calls run back to back for `seconds`. Return `energy_j` of a call, `power_w` and more.

        The host is one part of the calls ahead, so the GPU works during a reading:

        host  | part 1, part 2 | wait for 1 | read | part 3 | wait for 2 | read | part 4 …
        GPU     part 1 ────────────────────→ part 2 ───────────────────→ part 3 …

        `sustained_s` is the GPU's seconds per call in the second half, when power and heat have lowered the clock rate.
        It is the time between the events around each part.

        The power is that of the whole GPU, as a mean. Power and energy are from its counter of energy, which is renewed
        every 0.1 s or so. A renewal is noticed up to one part late, so a line is fitted through all renewals. Without
        the counter, only `sustained_s` is returned.

        If the host is slower than the GPU, the GPU idles during a reading, between the events around two parts. Energy
        and power are unknown if that is more than `_IDLE_SHARE` of the time.
        """
        clock, gauge = self.clock, self.device.gauge
        renewals = []
        second_half = []
        part, last = math.ceil(_LOAD_PART_S / warm_s), gauge.energy_j()
        self.device.sync()
        begin = now = due_s = clock()
        calls, marks = part, [self._enqueue(part)]
        while now - begin < seconds:
            start, end = self._enqueue(part)
            calls += part
            if now >= due_s:
                gauge.read()  # while the GPU works on the last calls, unless it waits for the host anyway
                due_s += seconds / _LOAD_READINGS
            marks[-1][1].synchronize()
            now, energy_j = clock(), gauge.energy_j()
            marks.append((start, end))
            if now - begin >= seconds / 2:
                second_half.append((part, start, end))
            unfinished = 0 if end.query() else part
            if energy_j != last and energy_j is not None:
                renewals.append((calls - unfinished, now, energy_j))
            last = energy_j
            if not unfinished:
                part = min(2 * part, math.ceil(_LONGEST_PART_S / warm_s))
        self.device.sync()
        idle_s = sum(end.elapsed_time(start) / 1e3 for (_, end), (start, _) in pairwise(marks))
        call_times_s = [start.elapsed_time(end) / 1e3 / part for part, start, end in second_half]
        facts = {"sustained_s": rounded(fmean(call_times_s))}
        if len({finished for finished, _, _ in renewals}) > 1 and idle_s <= _IDLE_SHARE * (now - begin):
            finished, renewed_s, energies_j = zip(*renewals, strict=True)
            facts["energy_j"] = rounded(linear_regression(finished, energies_j).slope)
            facts["power_w"] = rounded(linear_regression(renewed_s, energies_j).slope)
        return facts


def _is_steady(rates: Sequence[tuple[float, float]]) -> bool:
    """Whether the clock rate has hardly changed in the second half of the warm-up.

    `rates` holds seconds since its begin and the rate. A rate that falls ever more slowly differs most from the end in
    the first half of the time.
    """
    now_s, now_hz = rates[-1]
    half_hz = next(hz for at_s, hz in reversed(rates) if at_s <= now_s / 2 or at_s == rates[0][0])
    return abs(half_hz / now_hz - 1) <= STEADY_CLOCK
