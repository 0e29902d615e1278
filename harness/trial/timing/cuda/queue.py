"""Samples out of the GPU's queue: held back until all is enqueued, or, where that cannot be, running free.

held   host  | hold | flush start call end | flush start call end | … then wait
       GPU          spins ───────────────────────────────────────→ flush call, flush call, …
free   host  | flush, wait | start call end, wait

While the GPU is held, the host can enqueue calls at its own pace, and the time between their events is then the
GPU's alone: no launch is late. Whether it was held long enough is not assumed but seen: the event just after the hold
must not have been reached when a sample's last event is in the queue. That is proof, and also says that the queue
was never full, since a full one takes no more until the GPU moves on.

A call must be enqueued whole while the GPU waits. One of thousands of launches overfills the queue (about a thousand
entries; CUDA does not say), and one that waits for the GPU itself would wait for the hold to end: for these, nothing
but running free is left, and launch costs are in the time.

Before each call the L2 cache is filled with something else, so that each finds its weights and input in memory: what
one call of a layer inside a network finds. So a sample is one call.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.trial.timing.clock import MIN_SAMPLES
from harness.trial.timing.cuda.device import Device

# The GPU is held for so many times what enqueuing took so far, twice as long after each batch in which that was too
# short, and no longer than this: some drivers stop a kernel after a few seconds.
HOLD_MARGIN = 1.5
LONGEST_HOLD_S = 1.0
# Batches in a row without a held sample, after which the call is taken for one that cannot be held; more of them
# for one that was held before, and now met a busy host.
MISSES = 2
MISSES_ONCE_HELD = 6
# Host time beside the calls: once a batch, for its hold and for waking up from the last wait, and once a sample, for
# its change of the input, flush and events, until that has been measured.
BESIDE_BATCH_S = 50e-6
BESIDE_CALL_S = 50e-6
# One wait serves a batch. The queue has room for so many short calls; more than this share of the budget would
# leave too few batches to see different moments of the machine.
LARGEST_BATCH = 64
BATCH_SHARE = 0.2

Clock = Callable[[], float]


@dataclass
class Held:
    """Seconds a call, of held samples only; `taken` counts also those that were not held and left out."""

    gpu_s: list[float]
    host_s: list[float]
    taken: int


@dataclass
class Free:
    """Seconds a call, from an idle GPU: all of it, the host's part, and what was left for the GPU to do after that."""

    gpu_s: list[float]
    host_s: list[float]
    tail_s: list[float]


def sample_held(
    call: Callable[[], Any],
    device: Device,
    budget_s: float,
    host_s: float,
    clock: Clock,
    meanwhile: Callable[[], None],
    renew: Callable[[], None] = lambda: None,
) -> Held:
    """Held samples for about `budget_s`; fewer than `MIN_SAMPLES`, or none, where the call cannot be held.

    `host_s` is a guess of the host's seconds to enqueue a call. `meanwhile` is called while the GPU works.
    `renew` enqueues a change of the input, before the L2 cache is flushed for a sample.
    """
    held = Held([], [], 0)
    largest, count, misses, per_sample_s = LARGEST_BATCH, 1, 0, host_s + BESIDE_CALL_S
    begin = now = clock()
    while len(held.gpu_s) < MIN_SAMPLES or now - begin < budget_s:
        hold_s = min(LONGEST_HOLD_S, HOLD_MARGIN * 2**misses * (BESIDE_BATCH_S + count * per_sample_s))
        gpu_s, enqueuing_s, good = _batch(call, device, count, hold_s, clock, meanwhile, renew)
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
            largest = max(len(good), count // 2)  # half as many went in before: if fewer did now, the host was slow
        room = int(BATCH_SHARE * budget_s / (now - before) * count)
        count = max(1, min(2 * count, largest, room))
    return held


def _batch(
    call: Callable[[], Any],
    device: Device,
    count: int,
    hold_s: float,
    clock: Clock,
    meanwhile: Callable[[], None],
    renew: Callable[[], None],
) -> tuple[list[float], float, list[float]]:
    """`(the GPU's seconds of every sample, the host's for all of them, the host's for each call that was held)`."""
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
        # Once released, it stays so: the held ones are the first ones.
        if not released.query():
            host_s.append(after - before)
    enqueuing_s = clock() - begin
    meanwhile()
    device.sync()
    return [start.elapsed_time(end) / 1e3 for start, end in pairs], enqueuing_s, host_s


def sample_free(
    call: Callable[[], Any],
    device: Device,
    budget_s: float,
    clock: Clock,
    meanwhile: Callable[[], None],
    renew: Callable[[], None] = lambda: None,
) -> Free:
    """At least `MIN_SAMPLES` samples, for about `budget_s`, each from an idle GPU, launches and all."""
    free = Free([], [], [])
    begin = clock()
    while len(free.gpu_s) < MIN_SAMPLES or clock() - begin < budget_s:
        renew()
        device.flush_l2()
        device.sync()
        idle = clock()
        device.mark()
        device.sync()
        wait_s = clock() - idle  # that a wait takes when there is nothing to wait for
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
