"""Time a call on a GPU by the rules of the CPU's timing, but with the GPU's own clock and a cold L2 cache.

cold first call | warm-up … steady | held samples | hot and clean ones | calls back to back | as a graph | under load

Times are between CUDA events, which resolve about half a microsecond ("CUDA Runtime API", Event Management). Their
cost is `clock_s`, the time between two events with nothing in between, which is subtracted. So a single sample under
50 µs is uncertain by more than a hundredth. The median of many samples is more precise; their minimum is not. It is a
moment of a high clock rate.

Before each call the L2 cache is filled with other data. Each call then finds its weights and input in memory, as a call
of a layer inside a network does. Therefore a sample is one call.

The GPU's time, the host's time and the wall time of a call are three quantities, and each has its own name. The GPU's
time is what a call takes with launches that cost nothing. Two ways of sampling it exist: the queue is held until all
launches are in it, or one launch replays them all as a CUDA graph.

Samples are explained by the gauge's facts (`NvmlGauge.facts`) and:

- `gpu_time_by`: `held`, or `graph` for a call that could not be held. None if neither was possible.
- `queue_held`: the share of samples that provably began only after all was enqueued. The other samples are left
  out. At 0.0 the call could not be held.
- `graph_s`: the GPU's seconds per call, replayed as a CUDA graph. Taken of a call that cannot be held, and of one
  with many or short kernels, where the two ways may differ. `graph_note` says why there is none.
- `hot_gpu_s`, `clean_gpu_s`: the GPU's seconds per call with a warm cache, one call after the other, and with a
  cold cache that holds no dirty lines. `graph_hot_gpu_s` and `graph_clean_gpu_s` are those of its graph.
- `host_s`: the host's seconds to enqueue a call. None if this was never observed without a wait for the GPU.
- `wall_call_s`: seconds per call of many calls back to back, with a warm cache (`Sampling.back_to_back`).
- `host_bound`: whether `wall_call_s` is above `hot_gpu_s`, so that a training loop waits for the host. Of
  a call that could not be held, the GPU must also be done as soon as the host, because the kernels of its graph
  follow each other faster than launched ones. None if neither is known.
- `energy_j`, `sustained_s`: the energy of a call, and its time under load, see `Sampling.under_load`. None of a
  call that waits for the host: both would hold the GPU's rest between its kernels, which `time_s` leaves out.
- `throttled_share`: the share of the held samples left out because the clock rate was lowered.
- `l2_bytes`: the number of bytes written before each sample to make the L2 cache cold.
"""

import gc
import time
from dataclasses import replace
from statistics import median

from harness.core.stats.estimate import median_between_ticks

from ..device_kinds import TorchDevice
from ..sandbox import Answer, is_out_of_memory, one_line
from ..workload import Call, Remake
from . import sampler
from .cuda_sampling import MISSES_ONCE_HELD, Clock, Held, Sampling
from .sampler import Samples, rounded

# Shares of the budget, in addition to the samples: for calls back to back, for samples of a hot cache and of a cold one
# without dirty lines, and for samples of the graph of a call that was held.
BACK_TO_BACK_SHARE = 0.2
BESIDE_SHARE = 0.1
GRAPH_SHARE = 0.3
# The kernels of a graph follow each other a little faster than launched ones. Where enqueuing takes less than this
# share of the GPU's time, the call has so few kernels that both ways agree. A graph is not needed then.
FEW_LAUNCHES = 0.05
# A training loop waits for the host if its calls take this many times as long as they keep the GPU busy.
HOST_BOUND = 1.1
# Power and energy are read while calls run back to back for this long, because NVML renews them every 0.1 s or so.
LOAD_S = 0.5
# The launch of a graph is subtracted from each of its samples. A median of few launches would be off.
LAUNCHES = 20
# Pairs of events with nothing in between, and how long to hold the GPU while they are enqueued.
# In the first round, kernels are loaded and events are made, which takes longer than the hold. The pairs of one round
# may follow each other in step with the ticks of the events, so there are several.
_EMPTY_PAIRS = 16
_EMPTY_ROUNDS = 7
_EMPTY_HOLD_S = 0.5e-3


def sample_cuda(
    call: Call,
    budget_s: float,
    device: TorchDevice,
    clock: Clock = time.perf_counter,
    renew: Call = lambda: None,
    cache: str = "cold",
    is_graph: bool = False,
    remake: Remake | None = None,
    before_load: Call = lambda: None,
) -> tuple[Samples, Answer]:
    """Take samples of `call` for about `budget_s` seconds, at least `MIN_SAMPLES`. Return them and what explains them.

    `renew` enqueues a change of the input before each sample, outside its events. `cache` is as `Case.cache`. With
    `is_graph`, the call replays a graph. The samples are the GPU's time if
    `gpu_time_by` says how they were taken. Otherwise they include launches, and count as no time of the GPU.

    `remake` is as in `TorchDevice.capture`. `before_load` is called before the calls under load, which lower the clock
    rate for a while.
    """
    result, sampling = Samples(), Sampling(call, device, clock, renew, cache=cache)
    gc.collect()
    gc.disable()  # as on the CPU: a collection inside a sample is not the layer's cost
    try:
        result.clock_s = sampling.clock_s = _pair_s(device)
        sampling.clock_hz()  # its first kernels are loaded while they are timed
        if is_graph:
            sampling.launch_s, sampling.misses = _graph_launch_s(sampling), MISSES_ONCE_HELD
        sample_s, begin = sampling.warm_up(sampler.WARMUP_SHARE * budget_s, result), clock()
        held = sampling.held(budget_s, sample_s)
        result.sampling_s = clock() - begin
        free = None if held.enough else sampling.free(0.0)
        _time_other_caches(sampling, held, budget_s)
        timed = held if free is None else free
        host_s = median(timed.host_s) if free is None or free.host_bound else None
        warm_s = max(median(timed.host_s), median(timed.gpu_s))
        wall_call_s = sampling.back_to_back(BACK_TO_BACK_SHARE * budget_s, warm_s)
        graph, note = held if is_graph else Held(), None
        if not is_graph and (free is not None or median(held.host_s) > FEW_LAUNCHES * median(held.gpu_s)):
            begin = clock()
            graph, note = _as_graph(sampling, remake, budget_s, GRAPH_SHARE if free is None else 1.0)
            if free is not None and graph.taken:
                result.sampling_s = clock() - begin
        best = held if free is None else graph
        kept = best.unthrottled()
        result.samples_s = kept.gpu_s if best.enough else sampling.free(budget_s).gpu_s
        before_load()
        load = sampling.under_load(LOAD_S, wall_call_s) if device.gauge.is_open else {}
    finally:
        gc.enable()
    waits_for_host = None if free is None else free.host_bound
    if best.hot_s and waits_for_host is not False:
        waits_for_host = wall_call_s > HOST_BOUND * best.hot_s
    return result, {
        **device.gauge.facts(),
        "energy_j": None,
        "sustained_s": None,
        **({} if waits_for_host else load),
        **({"sm_clock_mhz": rounded(median(kept.clock_hz) / 1e6)} if kept.clock_hz else {}),
        "gpu_time_by": ("graph" if best is graph else "held") if best.enough else None,
        "queue_held": len(held.gpu_s) / held.taken if held.enough else 0.0,
        # As the value of the samples that a row holds, by which a summary knows that they are a graph's.
        "graph_s": median_between_ticks(rounded(graph.unthrottled().gpu_s)) if graph.enough else None,
        "graph_note": note,
        "graph_hot_gpu_s": graph.hot_s,
        "graph_clean_gpu_s": graph.clean_s,
        "hot_gpu_s": best.hot_s,
        "clean_gpu_s": best.clean_s,
        "host_s": rounded(host_s),
        "wall_call_s": rounded(wall_call_s),
        "host_bound": waits_for_host,
        "throttled_share": 1 - len(kept.gpu_s) / len(best.gpu_s) if best.enough and kept.clock_hz else None,
        "l2_bytes": device.flush_bytes,
    }


def _time_other_caches(sampling: Sampling, held: Held, budget_s: float) -> None:
    """Take the GPU's time with a warm cache and with a clean one, if the call could be held."""
    if not held.enough:
        return
    host_s, gpu_s, share_s = median(held.host_s), median(held.gpu_s), BESIDE_SHARE * budget_s
    # Writing the cache back takes some microseconds, of which a long call tells nothing.
    clean = sampling.held(share_s, held.sample_s, clean=True).unthrottled() if gpu_s < budget_s else Held()
    held.hot_s = rounded(sampling.hot(share_s, host_s, gpu_s, held.most))
    if clean.enough:
        held.clean_s = rounded(median_between_ticks(clean.gpu_s))


def _as_graph(sampling: Sampling, remake: Remake | None, budget_s: float, share: float) -> tuple[Held, str | None]:
    """Sample the call as a CUDA graph, for a share of the budget. Return the samples, or why there are none.

    A GPU without room for the graph's own memory is a reason too. Raises MemoryError if the host lacks memory.
    """
    device = sampling.device
    if why := device.lacks.get("capture") or sampling.lacks_for_held():
        return Held(), f"no graph: {why}"
    try:
        replay = device.capture(sampling.call, remake)
    except MemoryError:
        raise
    except Exception as error:  # whatever the call raises while it is captured: it has run before, so it is no failure
        why = one_line(error)
        what = "no room for a CUDA graph" if is_out_of_memory(error) else f"no CUDA graph: {type(error).__name__}"
        return Held(), f"{what}: {why}"
    graph = replace(sampling, call=replay, launch_s=_graph_launch_s(sampling), misses=MISSES_ONCE_HELD)
    # The host launches a graph of thousands of kernels in milliseconds, and the first time uploads it.
    held = graph.held(share * budget_s, graph.rehearse())
    _time_other_caches(graph, held, budget_s)
    return held, None if held.enough else "the replay of its CUDA graph could not be held"


def _graph_launch_s(sampling: Sampling) -> float:
    """How much longer the GPU takes to begin a graph than to begin a kernel, by a kernel that does nothing."""
    device = sampling.device
    alone = [replace(sampling, call=call, renew=lambda: None) for call in (device.tick, device.capture(device.tick))]
    kernel, graph = (one.held(0.0, one.rehearse(), least=LAUNCHES).gpu_s or [0.0] for one in alone)
    return max(0.0, median_between_ticks(graph) - median_between_ticks(kernel))


def _pair_s(device: TorchDevice) -> float:
    """The time in seconds between two events with nothing in between.

    Only pairs count that were in the queue before the hold was over: others have waited for the host.
    """
    held, late = list[float](), list[float]()
    for _ in range(_EMPTY_ROUNDS):
        if "flush" not in device.lacks:
            device.flush_l2()
        device.tick()
        if "hold" not in device.lacks:
            device.hold(_EMPTY_HOLD_S)
        released = device.mark()
        pairs = []  # the events of the round before are free now
        pairs += [(device.mark(), device.mark(), released.query()) for _ in range(_EMPTY_PAIRS)]
        device.sync()
        for start, end, is_late in pairs:
            (late if is_late else held).append(start.elapsed_time(end) / 1e3)
    return median_between_ticks(held or late)
