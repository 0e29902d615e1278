"""A layer timed in turns with another: it is built and warmed up, and then calls only when it is told to.

The driver has two such trials at once, one of each side, and gives them the turn one after the other. A turn is a few
milliseconds: what a shared machine does for a second or two meets both sides alike, and their ratio does not see it.

What a process is dealt by chance it keeps: which physical pages its memory has, and so which of them fall on the same
lines of a cache, made the same layer up to a tenth slower or faster from process to process. So the layer is built
anew, in new memory, every few turns.
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
from harness.trial.timing.last_call import check_last_call, check_repeated_calls, last_call
from harness.trial.timing.layout import litter
from harness.trial.timing.places import mover

# The other side has had the caches, and its threads spin for a while after their last work: calls before a turn's first
# sample last so long at least, unless a single call is so long that this does not matter.
_AGAIN_WARM_S = 0.5e-3
_LONG_CALL_S = 20e-3
# The first calls after the layer was built anew touch its new memory.
_CALLS_ANEW = 3


@dataclass
class _Layer:
    """The layer as it lies in memory now; `held` is what keeps the holes in its heap open."""

    held: list[bytearray]
    work: Workload
    renewal: Renewal


def take_turns(case: Case, seed: int, turn_s: float, warm_up_s: float, ask: int, answer: int) -> dict[str, Any]:
    """Serve turns of about `turn_s` seconds: for every two bytes on the descriptor `ask`, a line of JSON on `answer`.

    The first byte is the number of the place to take the turn at (see `places`), the second whether to build the layer
    anew before. The first line, before any turn, says that the layer is warm. A turn's line is the fastest and the mean
    call, in seconds. `warm_up_s` bounds the warm-up. Gives how many turns there were.
    """
    held, work = litter(), build(case, seed)
    layer = _Layer(held, work, Renewal(work.varying))
    del work
    load(layer.work.call, layer.work.sync)
    changes_input = layer.renewal.look()
    # Building a layer anew that compiles would compile it anew; and a GPU's memory is not the C library's.
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
        check_repeated_calls(layer.work, layer.renewal)
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
    """The same layer and input, in another place: what was free goes back to the kernel first."""
    del layer.work, layer.renewal
    layer.held.clear()
    gc.collect()  # collection is off: a layer in a cycle would stay, and its memory with it
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
    """Call until calls no longer get faster, or out of budget; the seconds of a warm one."""
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
