"""Interleaved samples of two layers: a trial builds and warms up one layer, then calls it only in its turns.

The driver runs two such trials at once, one for each side, and gives them turns alternately. A turn takes a few
milliseconds. A disturbance of a shared machine lasts a second or two. It slows both sides equally, and cancels in their
ratio.

A process keeps the physical pages that it gets by chance. They decide which parts of its memory share lines of a cache.
This made the same layer up to a tenth slower or faster from process to process. So the layer is rebuilt in new memory
every few turns.
"""

import ctypes
import gc
import math
import os
import sys
from dataclasses import dataclass
from statistics import fmean
from time import perf_counter
from typing import Any

from harness.case import Case
from harness.trial.answer import send
from harness.trial.build import Workload, build
from harness.trial.compile_failure import CompiledAgain
from harness.trial.renewal import Renewal
from harness.trial.timing.allocator import settle
from harness.trial.timing.clock import CLOCK_SHARE, LEAST_CALL_S, MIN_SAMPLE_S, WARMUP_SHARE, clock_cost, steady
from harness.trial.timing.compiled import compilations, load
from harness.trial.timing.last_call import check_call_times, check_last_call, last_call
from harness.trial.timing.layout import litter
from harness.trial.timing.places import mover

# The other side has used the caches, and its threads spin for a while after their last work. Therefore calls of this
# total duration precede a turn's first sample, unless a single call is so long that the effect is negligible.
_AGAIN_WARM_S = 0.5e-3
_LONG_CALL_S = 20e-3
# The first calls after a rebuild touch the layer's new memory.
_CALLS_ANEW = 3


@dataclass
class _Layer:
    """The layer as it lies in memory now. The blocks in `held` keep the holes in the heap open."""

    held: list[bytearray]
    work: Workload
    renewal: Renewal


def take_turns(case: Case, seed: int, turn_s: float, warm_up_s: float, ask: int, answer: int) -> dict[str, Any]:
    """Serve turns of about `turn_s` seconds each. Return their number under `turns`.

    Every two bytes on the descriptor `ask` request a turn, and one line of JSON on `answer` reports its result. The
    first byte is the number of the CPU set to run on (see `places`). The second one is whether to rebuild the layer
    before the turn. A line before the first turn reports that the layer is warm. A turn's line has the fastest and the
    mean time of a call, in seconds. The warm-up ends at the latest after the share `WARMUP_SHARE` of `warm_up_s`.

    Raises WrongResult if a call returned a kept result, and CompiledAgain if the layer was compiled again during the
    turns.
    """
    held, work = litter(), build(case, seed)
    layer = _Layer(held, work, Renewal(work.varying))
    del work
    load(layer.work.call, layer.work.sync)
    changes_input = layer.renewal.look()
    # A rebuild would compile a compiled layer again, and the C library does not manage a GPU's memory.
    compiles = compilations() > 0
    stays = compiles or case.device == "cuda"
    if case.allocator == "steady":
        settle(layer.work.call)
    per_call_s = _warm_up(layer.work, WARMUP_SHARE * warm_up_s)
    made = compilations() if compiles else 0
    sample_s = max(MIN_SAMPLE_S, CLOCK_SHARE * clock_cost(perf_counter))
    calls = 1 if changes_input else max(1, math.ceil(sample_s / per_call_s))
    again = 0 if per_call_s > _LONG_CALL_S else math.ceil(_AGAIN_WARM_S / per_call_s)
    move = mover(case.threads)
    gc.disable()
    turns = 0
    _say(answer, {"call_s": per_call_s})
    while asked := os.read(ask, 2):
        place, anew = asked
        move(place)
        if anew and not stays:
            _build_anew(layer, case, seed)
        _say(answer, _turn(layer, calls, again, turn_s))
        turns += 1
    if calls > 1:
        check_call_times(layer.work, layer.renewal)
    last = last_call(layer.work, layer.renewal, seed)
    if compiles and compilations() != made:
        raise CompiledAgain(f"it was compiled again while it was timed, {compilations() - made} times")
    del layer
    check_last_call(last, case, seed)
    return {"turns": turns}


def _turn(layer: _Layer, calls: int, again: int, turn_s: float) -> dict[str, float]:
    call, sync = layer.work.call, layer.work.sync
    for _ in range(again):
        call()
    sync()
    samples: list[float] = []
    begin = end = perf_counter()
    while end - begin < turn_s:
        layer.renewal()
        start = perf_counter()
        for _ in range(calls):
            call()
        sync()
        end = perf_counter()
        samples.append((end - start) / calls)
    return {"min_s": min(samples), "mean_s": fmean(samples)}


def _build_anew(layer: _Layer, case: Case, seed: int) -> None:
    """Rebuild the same layer and input in other memory. Return free memory to the kernel first."""
    del layer.work, layer.renewal
    layer.held.clear()
    gc.collect()  # automatic collection is off, so a layer in a reference cycle would keep its memory
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    layer.held = litter()
    layer.work = build(case, seed)
    layer.renewal = Renewal(layer.work.varying)
    layer.work.call()
    layer.renewal.look()
    for _ in range(_CALLS_ANEW - 1):
        layer.work.call()


def _warm_up(work: Workload, budget_s: float) -> float:
    """Call until calls no longer get faster or the budget is used up. Return the seconds of a warm call."""
    times: list[float] = []
    begin = perf_counter()
    while True:
        start = perf_counter()
        work.call()
        work.sync()
        now = perf_counter()
        times.append(now - start)
        if now - begin >= budget_s or steady(times):
            return max(min(times), LEAST_CALL_S)


def _say(answer: int, what: dict[str, float]) -> None:
    send(answer, {name: float(f"{value:.6g}") for name, value in what.items()})
