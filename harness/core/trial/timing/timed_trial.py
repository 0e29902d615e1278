"""Timed trials: `measure_time` takes all samples at once, `take_turns` interleaves them with those of another trial.

Interleaved samples are for a comparison of two layers: the driver gives each of two trials its turn.
"""

import ctypes
import gc
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from math import ceil
from statistics import fmean, median
from time import perf_counter

import torch

from harness.core.model.sweep_axes import Case

from .. import environment, reuse_between_calls
from ..compilation import CompiledAgain, call_until_compiled, compilations, compile_s
from ..counts.after_call import OtherThreads
from ..device import fill_tensors, to_float64
from ..device_kinds import GPU_KINDS, TorchDevice
from ..result_checks import WrongResult, check_error, largest_norm, tolerance
from ..sandbox import Answer, is_out_of_memory, one_line, send
from ..workload import Call, Unsupported, Workload, build

# Imported before any layer, also for a trial on the CPU: their clocks are bound now, and a layer may replace them.
from . import cuda_sampling, sampler
from .cuda import sample_cuda
from .sampler import Samples, rounded, take_samples

# The other side has used the caches, and its threads spin for a while after their last work. Therefore calls of this
# total duration precede a turn's first sample, unless a single call is so long that the effect is negligible.
_AGAIN_WARM_S = 0.5e-3
_LONG_CALL_S = 20e-3
# So many calls, but not of more than this total duration, tell how long a call takes among others.
_PIPELINED_CALLS = 50
_PIPELINED_S = 20e-3
# The start of a process on a GPU takes much longer than this, so shorter sampling would save nothing.
_LEAST_ON_GPU_S = 0.1


class _Layer:
    """The layer as it lies in memory now. The blocks in `held` keep the holes in the heap open."""

    def __init__(self, case: Case, seed: int) -> None:
        self._case, self._seed = case, seed
        self._build()

    def _build(self) -> None:
        self.held = environment.randomize_heap()
        self.work = build(self._case, self._seed)
        self.renewal = reuse_between_calls.Renewal(self.work.varying)

    def settle(self) -> float:
        """Make the calls that compile, and those that grow the heap. Return the seconds of the first call."""
        first_call_s = call_until_compiled(self.work.call, self.work.sync)
        self.renewal.look()
        if self._case.allocator == "steady":
            environment.settle_heap(self.work.call)
        return first_call_s

    def finish(self, others: OtherThreads, calls_per_sample: int, made: int) -> Answer:
        """Check further calls, drop the layer, and return what other threads did and whether a rebuilt layer agrees.

        `made` is the number of compilations before the samples. Raises WrongResult if a call returned a kept result,
        and CompiledAgain if the layer was compiled since.
        """
        if self.renewal.restores:  # the layer changes its input, and would find another one in a further call
            self.renewal()
        threads_after = others.running_after(self.work.call)
        if calls_per_sample > 1:
            reuse_between_calls.check_call_times(self.work, self.renewal)
        last = reuse_between_calls.take_last_call(self.work, self.renewal, self._seed)
        _check_not_compiled_since(made)
        del self.work, self.renewal
        self.held.clear()
        checked = reuse_between_calls.check_last_call(last, self._case, self._seed)
        return {"threads_after": rounded(threads_after), "last_call_checked": checked}

    def build_anew(self) -> None:
        """Rebuild the same layer and input in other memory. Return free memory to the kernel first.

        A process keeps the physical pages that it gets by chance. They decide which parts of its memory share lines of
        a cache. This made the same layer up to a tenth slower or faster from process to process. So the layer is
        rebuilt in new memory every few turns.
        """
        del self.work, self.renewal
        self.held.clear()
        gc.collect()  # automatic collection is off, so a layer in a reference cycle would keep its memory
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)
        self._build()
        self.work.call()  # it touches the layer's new memory
        self.renewal.look()


def measure_time(case: Case, seed: int, trial_s: float, check: bool = True) -> Answer:
    """Take samples for about `trial_s` seconds. Also time the probe and count the interference.

    With `check`, test afterwards whether the timed calls returned kept results (`trial.reuse_between_calls`).
    Raises WrongResult if they did, and CompiledAgain if the layer was compiled again while it was timed.
    """
    others = OtherThreads() if check else None
    layer = _Layer(case, seed)
    first_call_s = layer.settle()
    made = compilations()
    if case.device == "cpu":
        samples, extras = _on_cpu(layer, trial_s, first_call_s)
    else:
        samples, extras = _on_gpu(case, layer, trial_s)
    prepare_s = layer.work.prepare_s
    _check_not_compiled_since(made)
    checked = {} if others is None else layer.finish(others, samples.calls_per_sample, made)
    return {
        **{name: rounded(value) for name, value in asdict(samples).items() if name != "during"},
        "first_call_s": rounded(first_call_s),
        **samples.during,
        **extras,
        **checked,
        "prepare_s": rounded(prepare_s),
        "compile_s": rounded(compile_s(first_call_s, median(samples.samples_s))),
    }


def _check_not_compiled_since(made: int) -> None:
    if compilations() != made:
        raise CompiledAgain(f"it was compiled again while it was timed, {compilations() - made} times")


def _on_cpu(layer: _Layer, trial_s: float, first_call_s: float) -> tuple[Samples, Answer]:
    work, renewal = layer.work, layer.renewal
    readings = environment.probe_readings()
    samples = take_samples(
        work.call,
        work.sync,
        trial_s,
        renew=renewal,
        singly=renewal.restores,
        between=lambda: readings.extend(environment.probe_readings()),
        called_s=first_call_s,
    )
    return samples, {"probe_s": median([*readings, *environment.probe_readings()]), "cpu_mhz": environment.cpu_mhz()}


def open_device(case: Case) -> TorchDevice:
    """The case's GPU, as the sampler needs it. Raises Unsupported if it cannot be timed."""
    return GPU_KINDS[case.device]()


def as_graph(device: TorchDevice, work: Workload, case: Case) -> Call:
    """A replay of the call as one graph. Raises Unsupported with the reason if it cannot be captured.

    Raises OutOfMemoryError if the GPU has no room for the graph, which has memory of its own. Raises WrongResult if the
    replay computes something else than the call: another output or gradient. A layer that draws random numbers, so that
    two calls differ, is not compared.
    """
    why = device.lacks.get("capture")
    if why is None:
        try:
            # A forward pass that is no part of the call is made anew on the stream of the capture.
            replay = device.capture(work.call, work.remake if case.mode == "backward" else None)
        except MemoryError:
            raise
        except Exception as error:  # whatever the call raises while it is captured: it has run before
            line = one_line(error)
            if is_out_of_memory(error):
                text = f"a graph needs memory of its own: measure with launch=eager, or smaller sizes ({line})"
                raise torch.OutOfMemoryError(text) from error
            why = f"{type(error).__name__}: {line}"
    if why is not None:
        raise Unsupported(f"the call cannot be captured as a graph ({why}): measure with launch=eager")
    kept = [tensor.clone() for tensor in work.varying]

    def results(called: Call, seed: int) -> list[torch.Tensor]:
        # On the host, as the GPU may have no room for three copies of the gradients.
        tensors = reuse_between_calls.results_of(work, called, seed)
        copies = [tensor.detach().to("cpu", copy=True) for tensor in tensors if tensor is not None]
        fill_tensors(work.varying, kept)
        return copies

    # The graph runs first: the call replaces the gradients by others than the graph's.
    of_graph, of_call, again = results(replay, 0), results(work.call, 0), results(work.call, 1)
    largest = largest_norm(of_call)

    def compare(what: str, compared: list[torch.Tensor]) -> None:
        for tensor, expected in zip(compared, of_call, strict=True):
            limit = tolerance(expected.dtype, case.d_model)
            check_error(what, tensor, to_float64(expected), limit, largest)

    try:
        compare("a second call", again)
    except WrongResult:
        return replay
    compare("the replay of its graph", of_graph)
    return replay


# The parts that a device may lack, and the columns that need each of them.
NEEDED_FOR = {
    "hold": ("time_s", "hot_gpu_s", "clean_gpu_s", "graph_s"),
    "flush": ("time_s, hot_gpu_s and graph_s unless cache=hot", "clean_gpu_s"),
    "spin": ("sm_clock_mhz", "throttled_share"),
    "capture": ("graph_s",),
    "gauge": ("energy_j",),
}


def missing_parts(case: Case) -> list[str]:
    """A line for each part that the case's device lacks: the columns that stay empty, and why."""
    lacks = {} if case.device == "cpu" else open_device(case).lacks
    return [f"{', '.join(NEEDED_FOR[part])}: {why}" for part, why in lacks.items()]


def _on_gpu(case: Case, layer: _Layer, trial_s: float) -> tuple[Samples, Answer]:
    device = open_device(case)
    readings = device.probe_readings()
    before = environment.usage()
    # On a GPU each sample is one call anyway.
    call, is_graph = layer.work.call, case.launch == "graph"
    if is_graph:
        call = as_graph(device, layer.work, case)
    samples, extras = sample_cuda(
        call,
        max(trial_s, _LEAST_ON_GPU_S),
        device,
        renew=layer.renewal,
        cache=case.cache,
        is_graph=is_graph,
        remake=layer.work.remake if case.mode == "backward" else None,
        before_load=lambda: readings.extend(device.probe_readings()),
    )
    # Unlike on the CPU, this includes warm-up. It shows what the host did beside the GPU.
    samples.during = environment.usage().since(before)
    return samples, {"probe_s": median(readings), "cpu_mhz": environment.cpu_mhz(), "gpu": device.name_of(), **extras}


def probe_of(case: Case) -> Answer:
    """Time the reference workload of the case's device."""
    readings = environment.probe_readings() if case.device == "cpu" else open_device(case).probe_readings()
    return {"probe_s": median(readings)}


def take_turns(case: Case, seed: int, turn_s: float, warm_up_s: float, ask: int, answer: int) -> Answer:
    """Build and warm up one layer, then call it only in turns of about `turn_s` seconds each.

    The driver runs two such trials at once, one for each side, and gives them turns alternately. A turn takes a few
    milliseconds. A disturbance of a shared machine lasts a second or two. It slows both sides equally, and cancels in
    their ratio.

    Return the number of turns under `turns`, and `threads_after` of a last call. Every two bytes on the descriptor
    `ask` request a turn, and one line of JSON on `answer` reports its result. The first byte is the number of the CPU
    set to run on (see `cpu_places`). The second one is whether to rebuild the layer before the turn. A line before the
    first turn reports that the layer is warm. A turn's line has the fastest and the mean time of a call, in seconds.
    The warm-up ends as in a trial that samples for `warm_up_s`.

    Raises WrongResult if a call returned a kept result, and CompiledAgain if the layer was compiled again during the
    turns.
    """
    others = OtherThreads()
    layer = _Layer(case, seed)
    layer.settle()
    # A rebuild would compile a compiled layer again, and the C library does not manage a GPU's memory.
    on_gpu = case.device != "cpu"
    stays = compilations() > 0 or on_gpu
    eager = layer.work.call
    if case.launch == "graph":
        layer.work.call = as_graph(open_device(case), layer.work, case)
    until = _steady_and_clocked_up(warm_up_s) if on_gpu else sampler.steady_or_after(warm_up_s)
    times, _ = environment.warm_up(layer.work.call, layer.work.sync, until)
    per_call_s = max(min(times), sampler.LEAST_CALL_S)
    if on_gpu:
        per_call_s = max(pipelined_call_s(layer.work.call, layer.work.sync, per_call_s), sampler.LEAST_CALL_S)
    made = compilations()
    sample_s = max(sampler.MIN_SAMPLE_S, sampler.CLOCK_SHARE * sampler.clock_cost(perf_counter))
    calls = 1 if layer.renewal.restores else max(1, ceil(sample_s / per_call_s))
    again = 0 if per_call_s > _LONG_CALL_S else ceil(_AGAIN_WARM_S / per_call_s)
    move = environment.affinity_mover(case.threads)
    gc.disable()
    turns = 0
    send(answer, {"call_s": rounded(per_call_s)})
    while request := os.read(ask, 2):
        place, anew = request
        move(place)
        if anew and not stays:
            layer.build_anew()
        send(answer, _turn(layer, calls, again, turn_s))
        turns += 1
    if case.launch == "graph":
        layer.work.call = eager  # a replay does not run the code that sets the gradients
    return {"turns": turns, "threads_after": layer.finish(others, calls, made)["threads_after"]}


def _steady_and_clocked_up(warm_up_s: float) -> environment.IsWarm:
    """The end of a warm-up on a GPU, which needs some time to raise its clock rate."""
    is_warm = sampler.steady_or_after(warm_up_s)
    return lambda times, elapsed_s: elapsed_s >= cuda_sampling.LEAST_WARMUP_S and is_warm(times, elapsed_s)


def pipelined_call_s(call: Call, sync: Call, once_s: float, clock: Callable[[], float] = perf_counter) -> float:
    """Seconds per call of several calls with one wait at the end. A single call with a wait takes `once_s`.

    On a GPU a wait takes longer than a short kernel. A turn sized by single calls would consist of too few of them.
    """
    calls = max(1, min(_PIPELINED_CALLS, ceil(_PIPELINED_S / once_s)))
    start = clock()
    for _ in range(calls):
        call()
    sync()
    return (clock() - start) / calls


def _turn(layer: _Layer, calls: int, again: int, turn_s: float) -> dict[str, float]:
    call, sync = layer.work.call, layer.work.sync
    for _ in range(again):
        call()
    sync()
    samples = []
    begin = end = perf_counter()
    while end - begin < turn_s:
        layer.renewal()
        start = perf_counter()
        for _ in range(calls):
            call()
        sync()
        end = perf_counter()
        samples.append((end - start) / calls)
    return {"min_s": rounded(min(samples)), "mean_s": rounded(fmean(samples))}
