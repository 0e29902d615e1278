"""Timed trials: `measure_time` takes all samples at once, `take_turns` interleaves them with those of another trial.

Interleaved samples are for a comparison of two layers: the driver gives each of two trials its turn.
"""

import ctypes
import gc
import math
import os
import sys
from dataclasses import asdict, dataclass
from statistics import fmean, median
from time import monotonic, perf_counter
from typing import Any

from harness.case import Case
from harness.trial.compilation import CompiledAgain, call_until_compiled, compilations, compile_s, compiler_loaded
from harness.trial.environment import affinity_mover, cpu_mhz, probe_s, randomize_heap, settle_heap, usage
from harness.trial.messages import send
from harness.trial.reuse_between_calls import Renewal, check_call_times, check_last_call, take_last_call
from harness.trial.timing.sampler import (
    CLOCK_SHARE,
    LEAST_CALL_S,
    MIN_SAMPLE_S,
    WARMUP_SHARE,
    Samples,
    clock_cost,
    is_steady,
    take_samples,
)
from harness.trial.workload import Workload, build


def measure_time(case: Case, seed: int, trial_s: float, check: bool = True) -> dict[str, Any]:
    """Take samples for about `trial_s` seconds. Also time the probe and count the interference.

    With `check`, test afterwards whether the timed calls returned kept results: see
    `harness.trial.reuse_between_calls`. Raises WrongResult if they did, and CompiledAgain if the layer was
    compiled again while it was timed.
    """
    began = monotonic()
    held = randomize_heap()
    work = build(case, seed)
    may_compile = compiler_loaded()
    renewal = Renewal(work.varying)
    first_call_s = call_until_compiled(work.call, work.sync)
    changes_input = renewal.look()
    if case.allocator == "steady":
        settle_heap(work.call)
    built = monotonic()
    made = compilations() if may_compile else 0
    of_device = _on_gpu if case.device == "cuda" else _on_cpu
    samples, extras = of_device(work, trial_s, renewal, changes_input)
    samples.first_call_s = first_call_s
    last = None
    if check:
        if samples.calls_per_sample > 1:
            check_call_times(work, renewal)
        last = take_last_call(work, renewal, seed)
    if may_compile and compilations() != made:
        raise CompiledAgain(f"it was compiled again while it was timed, {compilations() - made} times")
    del held, work, renewal
    checked = {} if last is None else {"last_call_checked": check_last_call(last, case, seed)}
    warm_s = median(samples.samples_s)
    return {
        **{name: _rounded(value) for name, value in asdict(samples).items() if name != "during"},
        **samples.during,
        **extras,
        **checked,
        "build_s": _rounded(built - began),
        "compile_s": _rounded(compile_s(samples.first_call_s, warm_s)),
    }


def _on_cpu(work: Workload, trial_s: float, renewal: Renewal, singly: bool) -> tuple[Samples, dict[str, Any]]:
    before_s = probe_s()
    samples = take_samples(work.call, work.sync, trial_s, renew=renewal, singly=singly)
    # Take the quieter of the two: the fastest samples come from that end of the trial.
    return samples, {"probe_s": min(before_s, probe_s()), "cpu_mhz": cpu_mhz()}


def _on_gpu(work: Workload, trial_s: float, renewal: Renewal, singly: bool) -> tuple[Samples, dict[str, Any]]:
    from harness.trial.timing.cuda import (
        TorchDevice,
        sample_cuda,  # imported here, because only a GPU needs it and NVML
    )

    device = TorchDevice()
    before = usage()
    samples, extras = sample_cuda(work.call, trial_s, device, renew=renewal)  # on a GPU each sample is one call anyway
    # Unlike on the CPU, this includes warm-up. It shows what the host did beside the GPU.
    samples.during = usage().since(before)
    return samples, {"probe_s": None, "cpu_mhz": cpu_mhz(), **extras}


def _rounded(value: Any) -> Any:
    """Round to six significant digits, since a clock has no more."""
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


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
    """Build and warm up one layer, then call it only in turns of about `turn_s` seconds each.

    The driver runs two such trials at once, one for each side, and gives them turns alternately. A turn takes a few
    milliseconds. A disturbance of a shared machine lasts a second or two. It slows both sides equally, and cancels in
    their ratio.

    Return the number of turns under `turns`. Every two bytes on the descriptor `ask` request a turn, and one line of
    JSON on `answer` reports its result. The first byte is the number of the CPU set to run on (see `cpu_places`). The
    second one is whether to rebuild the layer before the turn. A line before the first turn reports that the layer is
    warm. A turn's line has the fastest and the mean time of a call, in seconds. The warm-up ends at the latest after
    the share `WARMUP_SHARE` of `warm_up_s`.

    Raises WrongResult if a call returned a kept result, and CompiledAgain if the layer was compiled again during the
    turns.
    """
    held, work = randomize_heap(), build(case, seed)
    layer = _Layer(held, work, Renewal(work.varying))
    del work
    call_until_compiled(layer.work.call, layer.work.sync)
    changes_input = layer.renewal.look()
    # A rebuild would compile a compiled layer again, and the C library does not manage a GPU's memory.
    compiles = compilations() > 0
    stays = compiles or case.device == "cuda"
    if case.allocator == "steady":
        settle_heap(layer.work.call)
    per_call_s = _warm_up(layer.work, WARMUP_SHARE * warm_up_s)
    made = compilations() if compiles else 0
    sample_s = max(MIN_SAMPLE_S, CLOCK_SHARE * clock_cost(perf_counter))
    calls = 1 if changes_input else max(1, math.ceil(sample_s / per_call_s))
    again = 0 if per_call_s > _LONG_CALL_S else math.ceil(_AGAIN_WARM_S / per_call_s)
    move = affinity_mover(case.threads)
    gc.disable()
    turns = 0
    _answer(answer, {"call_s": per_call_s})
    while asked := os.read(ask, 2):
        place, anew = asked
        move(place)
        if anew and not stays:
            _build_anew(layer, case, seed)
        _answer(answer, _turn(layer, calls, again, turn_s))
        turns += 1
    if calls > 1:
        check_call_times(layer.work, layer.renewal)
    last = take_last_call(layer.work, layer.renewal, seed)
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
    """Rebuild the same layer and input in other memory. Return free memory to the kernel first.

    A process keeps the physical pages that it gets by chance. They decide which parts of its memory share lines of a
    cache. This made the same layer up to a tenth slower or faster from process to process. So the layer is rebuilt in
    new memory every few turns.
    """
    del layer.work, layer.renewal
    layer.held.clear()
    gc.collect()  # automatic collection is off, so a layer in a reference cycle would keep its memory
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    layer.held = randomize_heap()
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
        if now - begin >= budget_s or is_steady(times):
            return max(min(times), LEAST_CALL_S)


def _answer(answer: int, what: dict[str, float]) -> None:
    send(answer, {name: float(f"{value:.6g}") for name, value in what.items()})
