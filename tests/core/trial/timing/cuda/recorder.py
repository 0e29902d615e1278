"""Record what launches, events, the queue, the cache and the clock of the present GPU cost, in less than a minute.

    python -m core.trial.timing.cuda.recorder -o RECORD.json      with tests/ on PYTHONPATH

`records.gpu_of` makes a simulated GPU that costs the same. So a simulation can be refuted by the device that it is of.
"""

import argparse
import math
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median, pstdev, quantiles
from typing import Any

from core.trial.timing.cuda.records import write

from harness.core.trial import device_kinds
from harness.core.trial.device_kinds import FLUSH_FACTOR, TorchDevice
from harness.core.trial.timing import cuda
from harness.core.trial.timing.cuda_sampling import Sampling

Clock = Callable[[], float]
_LAUNCHES, _AT_ONCE = 4000, 200
# A launch that takes this long has waited for room in the queue. The hold must outlast the launches before.
_WAITED_S, _DEPTH_HOLD_S, _DEEPEST = 2e-3, 0.1, 20_000
_CHAIN = (100, 400)
_HOLDS_S = (0.5e-3, 2e-3, 10e-3)
_FLUSHES = (0.0, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
# The share of the cache that is read after a flush. A cache of two halves may keep a copy of the same lines in each.
_READ, _READINGS = 0.25, 40
_SEVERAL = (2, 4)
# Another process of the host may delay a launch, which then looks like a wait for room.
_DEPTH_ROUNDS = 3
_LOAD_S, _LOAD_PART_S, _REST_S = 3.0, 4e-3, 0.5
# Longer than this over the median, a launch has met a stall of the host.
_STALLED = 4
_REPEATS = 9


def record(
    device: TorchDevice | None = None, clock: Clock = time.perf_counter, rest: Callable[[float], None] = time.sleep
) -> dict[str, Any]:
    """Measure the present GPU. Times are in seconds."""
    device = device or TorchDevice()
    sampling = Sampling(lambda: None, device, clock)
    began = clock()
    event_s = cuda._pair_s(device)
    sampling.clock_s = event_s
    sampling.clock_hz()
    rest(_REST_S)
    curve = _clock_curve(device, sampling, clock)
    found = {
        "event_s": event_s,
        **_launches(device, clock),
        "event_launch_s": _usual(lambda: device.mark(), clock, device.sync),
        "wait_s": median(_seconds(device.sync, clock) for _ in range(_AT_ONCE)),
        "query_s": _usual(device.mark().query, clock, device.sync),
        "tick_s": _tick_s(device),
        "depth": max(_depth(device, clock) for _ in range(_DEPTH_ROUNDS)),
        **_gaps(device, sampling, clock),
        "l2_bytes": device.flush_bytes // FLUSH_FACTOR,
        **_eviction(device, event_s),
        **curve,
        "hold_over_asked": {str(asked_s): _held_s(device, asked_s) / asked_s for asked_s in _HOLDS_S},
    }
    return {**found, "took_s": clock() - began}


def _seconds(call: Callable[[], Any], clock: Clock) -> float:
    before = clock()
    call()
    return clock() - before


def _usual(call: Callable[[], Any], clock: Clock, sync: Callable[[], None]) -> float:
    """The host's seconds for a call, once its first uses are over."""
    seconds = [_seconds(call, clock) for _ in range(2 * _AT_ONCE)]
    sync()
    return median(seconds[_AT_ONCE:])


def _launches(device: TorchDevice, clock: Clock) -> dict[str, float]:
    seconds: list[float] = []
    for _ in range(_LAUNCHES // _AT_ONCE):
        seconds += [_seconds(lambda: device.spin(1), clock) for _ in range(_AT_ONCE)]
        device.sync()
    usual = median(seconds)
    late = [one for one in seconds if one > _STALLED * usual]
    logs = [math.log(one) for one in seconds if 0 < one <= _STALLED * usual]
    stall_s = fmean(late) - usual if len(late) > len(seconds) / 500 else 0.0
    return {"launch_s": usual, "jitter": pstdev(logs), "stall_s": stall_s}


def _tick_s(device: TorchDevice) -> float:
    """The step of the events' clock, 0 if it is below 5 ns."""
    pairs = []
    for cycles in range(1, 40_001, 200):
        start = device.mark()
        device.spin(cycles)
        pairs.append((start, device.mark()))
    device.sync()
    values = sorted({round(start.elapsed_time(end) * 1e-3, 10) for start, end in pairs})
    steps = [after - before for before, after in pairwise(values) if after - before > 1e-9]
    tick_s = min(steps, default=0.0)
    return tick_s if tick_s > 5e-9 else 0.0


def _depth(device: TorchDevice, clock: Clock) -> int:
    """How many entries the queue has room for."""
    device.hold(_DEPTH_HOLD_S)
    for count in range(1, _DEEPEST):
        if _seconds(lambda: device.spin(1), clock) > _WAITED_S:
            device.sync()
            return count
    device.sync()
    return _DEEPEST


def _chain_s(device: TorchDevice, call: Callable[[], Any], hold_s: float) -> float:
    """The GPU's seconds for what `call` enqueues, while the queue is held."""
    found = []
    for _ in range(_REPEATS):
        device.hold(hold_s)
        start = device.mark()
        call()
        end = device.mark()
        device.sync()
        found.append(start.elapsed_time(end) / 1e3)
    return median(found)


def _gaps(device: TorchDevice, sampling: Sampling, clock: Clock) -> dict[str, float]:
    def chain(length: int) -> Callable[[], None]:
        return lambda: [device.spin(1) for _ in range(length)] and None

    few, many = _CHAIN
    plain = [_chain_s(device, chain(length), 20e-3) for length in _CHAIN]
    replays = [device.capture(chain(length)) for length in _CHAIN]
    device.sync()
    first_s = _seconds(replays[0], clock)
    graphs = [_chain_s(device, replay, 2e-3) for replay in replays]
    hosts = [_usual(replay, clock, device.sync) for replay in replays]
    gap_s, graph_gap_s, graph_node_s = ((of[1] - of[0]) / (many - few) for of in (plain, graphs, hosts))
    return {
        "gap_s": gap_s,
        "graph_gap_s": graph_gap_s,
        "graph_launch_s": cuda._graph_launch_s(sampling),
        "graph_node_s": max(0.0, graph_node_s),
        # Graphs are new in every process. The launch of the shorter one varies less.
        "lazy_s": max(0.0, first_s - hosts[0]),
    }


def _eviction(device: TorchDevice, event_s: float) -> dict[str, Any]:
    """How long a quarter of the cache takes to read after clean flushes of several sizes, as shares of the cache.

    The bandwidth of the memory is that of reading several caches. A quarter of one takes hardly longer from the memory
    than from the cache, as the starts of both overlap: an H200 seemed to read 7.9 TB/s of its 4.8.
    """
    torch = device_kinds.torch
    numbers = device.flush_bytes // FLUSH_FACTOR // 4
    array, out = torch.zeros(int(_READ * numbers), device="cuda"), torch.zeros((), device="cuda")
    buffer = torch.zeros(int(max(_FLUSHES) * numbers), device="cuda")
    seconds = {}
    for share in _FLUSHES:
        found = []
        for _ in range(_READINGS):
            device.flush_l2(clean=True)  # of the buffer, which has to be read from memory
            torch.sum(array, dim=0, out=out)
            device.hold(1e-3)
            if share:
                torch.sum(buffer[: int(share * numbers)], dim=0, out=out)
            start = device.mark()
            torch.sum(array, dim=0, out=out)
            end = device.mark()
            device.sync()
            found.append(start.elapsed_time(end) / 1e3)
        seconds[share] = _trimmed_mean(found)
    few, many = _SEVERAL
    few_s, many_s = (_read_s(device, buffer[: share * numbers], out) for share in _SEVERAL)
    warm_s, cold_s = seconds[0.0], seconds[max(_FLUSHES)]
    evicted = {share: (one - warm_s) / max(cold_s - warm_s, 1e-12) for share, one in seconds.items()}
    small = [share for share in _FLUSHES[1:] if evicted[share] < 0.9] or [_FLUSHES[1]]
    return {
        "eviction": {str(share): [seconds[share], evicted[share]] for share in _FLUSHES},
        # Not a mean of ratios: a small flush evicts what takes about one tick to read.
        "evicted": sum(evicted[share] for share in small) / sum(small),
        "bytes_per_s": 4 * (many - few) * numbers / max(many_s - few_s, 1e-12),
    }


def _read_s(device: TorchDevice, array: Any, out: Any) -> float:
    """The seconds of reading an array that the cache does not hold."""
    found = []
    for _ in range(_READINGS):
        device.hold(1e-3)
        device.flush_l2(clean=True)
        start = device.mark()
        device_kinds.torch.sum(array, dim=0, out=out)
        end = device.mark()
        device.sync()
        found.append(start.elapsed_time(end) / 1e3)
    return _trimmed_mean(found)


def _trimmed_mean(values: Sequence[float]) -> float:
    """The mean without the lowest and the highest tenth. A median would be a multiple of the tick."""
    tenth = len(values) // 10
    return fmean(sorted(values)[tenth : len(values) - tenth])


def _clock_curve(device: TorchDevice, sampling: Sampling, clock: Clock) -> dict[str, Any]:
    """The clock rate after a rest, and while products follow each other."""
    torch = device_kinds.torch
    factor = torch.ones(2048, 2048, dtype=torch.bfloat16, device="cuda")
    product = torch.empty_like(factor)

    def load(calls: int) -> None:
        with torch.no_grad():
            for _ in range(calls):
                torch.mm(factor, factor, out=product)

    load(2)
    once_s = max(_chain_s(device, lambda: load(1), 0.5e-3), 1e-6)
    rested_hz = max(sampling.clock_hz() for _ in range(_REPEATS))
    calls, curve, began = max(1, int(_LOAD_PART_S / once_s)), [], clock()
    while (now := clock() - began) < _LOAD_S:
        load(calls)
        curve.append((now, sampling.clock_hz()))
    return {"clock_curve": curve, **_fitted([(0.0, rested_hz), *curve])}


def _fitted(curve: Sequence[tuple[float, float]]) -> dict[str, float]:
    """The highest rate, and an exponential fall from it: the area above its end is the fall times the time constant.

    A GPU at rest may have a lowered rate, and needs some tens of milliseconds of work to reach its highest one.
    """
    top = max(range(len(curve)), key=lambda place: curve[place][1])
    boost_hz, end_hz = curve[top][1], median(hz for _, hz in curve[-max(1, len(curve) // 4) :])
    noise = quantiles([hz for _, hz in curve[len(curve) // 2 :]], n=20)
    fall = boost_hz - end_hz
    if fall <= max(noise[-1] - noise[0], 0.003 * boost_hz):
        return {"boost_hz": boost_hz, "sustained_hz": end_hz, "tau_s": 0.0}
    pairs = pairwise(curve[top:])
    area = sum((after - before) * ((hz + next_hz) / 2 - end_hz) for (before, hz), (after, next_hz) in pairs)
    return {"boost_hz": boost_hz, "sustained_hz": end_hz, "tau_s": max(0.0, area / fall)}


def _held_s(device: TorchDevice, asked_s: float) -> float:
    start = device.mark()
    device.hold(asked_s)
    end = device.mark()
    device.sync()
    return start.elapsed_time(end) / 1e3


def main() -> None:
    """Write the record of torch's present device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--out", type=Path, required=True)
    out = parser.parse_args().out
    found = {"gpu": device_kinds.torch.cuda.get_device_name(), **record()}
    write(found, out)
    print("\n".join(f"{name}: {value}" for name, value in found.items() if not isinstance(value, list)))


if __name__ == "__main__":
    main()
