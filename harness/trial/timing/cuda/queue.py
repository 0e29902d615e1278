"""Take samples from the GPU's queue. Hold the queue until all is enqueued; if this is impossible, let it run free.

held   host  | hold | flush start call end | flush start call end | … then wait
       GPU          spins ───────────────────────────────────────→ flush call, flush call, …
free   host  | flush, wait | start call end, wait

While the GPU is held, the host can enqueue calls at its own pace. The time between their events is then the GPU's
alone, because no launch is late. Whether the hold was long enough is not assumed but observed. When a sample's last
event is in the queue, the GPU must not have reached the event just after the hold. This is proof. It also shows that
the queue was never full, since a full queue accepts nothing until the GPU continues.

A call must be enqueued completely while the GPU waits. A call of thousands of launches overfills the queue, which has
about a thousand entries (CUDA does not document the number). A call that itself waits for the GPU would wait until the
hold ends. These calls can only run free, and their times include launch costs.

Before each call the L2 cache is filled with other data. Each call then finds its weights and input in memory, as a call
of a layer inside a network does. Therefore a sample is one call.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.trial.timing.clock import MIN_SAMPLES
from harness.trial.timing.cuda.device import Device

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


def sample_held(
    call: Callable[[], Any],
    device: Device,
    budget_s: float,
    host_s: float,
    clock: Clock,
    meanwhile: Callable[[], None],
    renew: Callable[[], None] = lambda: None,
) -> Held:
    """Take held samples for about `budget_s` seconds. Fewer than `MIN_SAMPLES` are returned if the call cannot be held.

    `host_s` is an estimate of the host's seconds to enqueue a call. `meanwhile` is called while the GPU works. Before
    the L2 cache is flushed for a sample, `renew` enqueues a change of the input.
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
            largest = max(len(good), count // 2)  # half as many fitted before: if fewer did now, the host was slow
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
    """Take one batch of `count` samples in a hold.

    Return `(GPU seconds of every sample, host seconds for the whole batch, host seconds of each held call)`.
    """
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


def sample_free(
    call: Callable[[], Any],
    device: Device,
    budget_s: float,
    clock: Clock,
    meanwhile: Callable[[], None],
    renew: Callable[[], None] = lambda: None,
) -> Free:
    """Take samples for about `budget_s` seconds, at least `MIN_SAMPLES`.

    Each starts on an idle GPU and includes launch costs.
    """
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
