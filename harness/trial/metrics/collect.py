"""All deterministic facts of a case, taken in a trial of their own.

Peak memory is what one call needs beyond what existed before it: without weights and input, but including the output.
It is measured in two ways, by torch's allocator (`allocator_peak`) and by the operating system (`resident_peak`).
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from json import dumps  # bound before a layer may replace it
from typing import Any, NamedTuple

import torch
from torch import Tensor

from harness.errors import UsageError
from harness.fit.page_faults import RECORDED_SIZES
from harness.sweep_axes import EQUAL, Case, device_kind
from harness.trial import compilation, environment, layer_protocol, peak_rates, result_checks
from harness.trial.device import (
    allocator_peak,
    exceeds_traced,
    leave_out_workspaces,
    mapped_bytes,
    resident_peak,
    uncounted,
)
from harness.trial.metrics import after_call
from harness.trial.metrics.flops import Flops, claimed_work
from harness.trial.metrics.opaque_kernels import Fallback, PackedWeights, backend_name
from harness.trial.metrics.operations import (
    Depth,
    Observer,
    Storages,
    Traffic,
    Unobservable,
    UntrackedWrites,
    bytes_of,
    tensors_of,
)
from harness.trial.packed_sequences import lengths_facts
from harness.trial.workload import Unsupported, Workload, build, counted_tokens, output_shape


@dataclass(frozen=True)
class Observation:
    """Results of one observed call.

    - `ops`: the number of dispatched operations.
    - `packed_bytes`: see `PackedWeights`.
    - `traffic`: see `Traffic.totals`.
    - `fallback`: see `Fallback`.
    - `past_torch`: whether something that torch does not dispatch contributed to the result.
    - `past_allocator`: whether it did so in memory that is not torch's.
    """

    flops: Flops
    depth: tuple[int, int]
    ops: int
    packed_bytes: int | None
    traffic: tuple[int, int, int]
    fallback: str | None
    past_torch: bool
    past_allocator: bool


class ObservedCall(NamedTuple):
    """The number of operations of one call, its leaves and its outputs.

    `kept` holds what else the call has read, such as the tensors that a forward pass saved for a backward pass. Freed
    memory would look like memory that was made outside torch during the call.
    """

    ops: int
    leaves: list[Tensor]
    outputs: list[Tensor]
    kept: Any


def observe_call(work: Workload, storages: Storages, counts: Iterable[Callable[[Any], object]]) -> ObservedCall:
    """Call the workload once. Each of `counts` is called with every `Operation`.

    Raises Unobservable, or whatever the layer raises under observation.
    """
    observer = Observer(storages, counts)
    leaves = [*work.inputs, *work.layer.parameters(), *work.layer.buffers()]
    for leaf in leaves:
        storages.key(leaf)
    with compilation.uncompiled_calls():  # otherwise the compiler would trace into the observer
        call = work.remake()  # for a backward pass, this makes a graph that is not compiled
        with observer, _noting_what_passes_torch(storages):
            result = call()
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    return ObservedCall(len(observer.seen), leaves, [*tensors_of(result), *gradients], (call, result))


@contextlib.contextmanager
def _noting_what_passes_torch(storages: Storages) -> Iterator[None]:
    """Note the lengths that `pad_packed_sequence` returns, which torch's C++ fills past its dispatcher, and numpy."""
    torchs: Any = torch._VF
    tensors: Any = Tensor
    unpack, numpy = torchs._pad_packed_sequence, Tensor.numpy

    def noted(*arguments: Any) -> tuple[Tensor, Tensor]:
        padded, lengths = unpack(*arguments)
        storages.filled.add(storages.key(lengths))
        return padded, lengths

    def as_numpy(tensor: Tensor, **options: Any) -> Any:
        storages.is_read_by_numpy = True
        return numpy(tensor, **options)

    torchs._pad_packed_sequence, tensors.numpy = noted, as_numpy
    try:
        yield
    finally:
        del torchs._pad_packed_sequence, tensors.numpy


def trace_call(work: Workload, ran: Iterable[str] = ()) -> Observation:
    """Count the facts of one call. Raises as `observe_call` does. `ran` is as for `Flops`."""
    storages = Storages()
    flops = Flops(getattr(type(work.layer), "kernels", None), ran)
    depth = Depth(flops.declared_depth, storages)
    traffic = Traffic(storages)
    written, fallback, packed = UntrackedWrites(storages), Fallback(), PackedWeights()
    counts = (flops.add, depth.add, traffic.add, written.add, fallback.add, packed.add)
    seen = observe_call(work, storages, counts)
    given = [*seen.leaves, *work.constants, *([] if work.gradient is None else [work.gradient])]
    return Observation(
        flops=flops,
        depth=depth.longest,
        ops=seen.ops,
        packed_bytes=packed.bytes(),
        traffic=traffic.totals(seen.outputs),
        fallback=fallback.reason,
        past_torch=written.past_torch(given, seen.outputs),
        past_allocator=written.somebody_elses,
    )


# Measures the errors of a workload (see `harness.trial.accuracy`).
MeasureErrors = Callable[[Workload, Case, int, Tensor | None, int | None, list[str]], dict[str, Any]]


def collect_metrics(case: Case, seed: int, measure_errors: MeasureErrors | None = None) -> dict[str, Any]:
    """Return what one call of the case computes, moves and allocates, which kernel it runs, and how accurate it is.

    Errors are those that `measure_errors` returns; without it, none are measured. The result is the same each time.

    | key | meaning |
    | --- | --- |
    | `flops` | FLOPs, a multiply-add being 2; of fused kernels only what a causal mask leaves |
    | `flops_full` | FLOPs without regard to the mask |
    | `flops_claimed` | the FLOPs that the layer claims; None without a claim |
    | `claims` | all claims of a user's own layer, as JSON; None for built-in layers, whose claims are in the registry |
    | `flops_unknown` | operators without a formula; `flops` is None if this list is not empty |
    | `ops`, `depth` | dispatched operations, including views; operations on the longest chain |
    | `depth_declared` | how many operations of the chain opaque kernels declare |
    | `fused_depth_declared` | whether opaque kernels declare any |
    | `min_bytes` | the least traffic: what is read of weights and inputs, and outputs, once; intermediates twice |
    | `read_bytes` | the part of it that is surely read of weights, inputs, masks and caches |
    | `weights_bytes` | parameters, buffers, and packed weights such as quantized ones |
    | `inputs_bytes` | inputs, masks, caches and states; in `train` and `backward` also the output's gradient |
    | `output_bytes` | outputs; in `train` and `backward` also all other gradients |
    | `peak_bytes` | the peak beyond weights and inputs, including outputs; None if torch allocated only a part of it |
    | `first_call_bytes` | the part of the peak that the first call has made and that stays, such as a table |
    | `kept_bytes` | the bytes that each further call keeps beyond its results |
    | `saved_bytes` | the part of the peak that the forward pass saves for the backward pass |
    | `transient_bytes` | the rest of the peak; in `backward` all of it, because `saved_bytes` existed before |
    | `peak_resident_bytes` | the peak as seen by the operating system's kernel; None on a GPU |
    | `peak_traced_bytes` | the peak of what torch's allocator handed out, even if others allocated as well |
    | `mapped_bytes` | the bytes that every call maps anew (see `mapped_bytes`); None on a GPU, and outside torch |
    | `block_sizes` | the eight largest sizes of blocks, each with its number of blocks, as JSON; None as above |
    | `page_fault_s` | the seconds of one page fault, measured once; None on a GPU |
    | `lengths_as`, `real_tokens`, … | see `harness.trial.packed_sequences` |
    | `output_error`, `gradient_error`, … | see `harness.trial.accuracy` |
    | `backend` | the kernel that ran |
    | `backend_fallback` | one sentence if a faster kernel was allowed, else None |
    | `facts_unknown` | one line for each reason why a value above is None |

    Each kind of fact is taken in a separate call, so that taking one does not disturb another.
    """
    # glibc shall return each large block when it is freed. Blocks that stay on its heap made the resident peak of one
    # layer vary from 42 to 161 MiB, and torch's own blocks could not be distinguished from other memory.
    with contextlib.suppress(Unsupported):  # without glibc
        environment.set_allocator("fresh")
    kind = device_kind(case.device)
    if kind == "cuda":
        leave_out_workspaces(torch.__version__)
    others = after_call.OtherThreads()
    work = build(case, seed)
    first = [(tensor, tensor.detach().clone()) for tensor in (*work.inputs, *work.varying)]
    drawn = torch.get_rng_state()
    held_before = after_call.reachable_bytes() - after_call.weights_bytes(work)
    # The first call loads pools, caches and code, which are not the call's memory.
    y, has_threads = others.work_during(work.call)
    work.sync()
    if case.mode in ("forward", "train"):
        dtype = layer_protocol.output_dtype(work.layer, case.dtype)
        y = result_checks.check_output(y, work.x, output_shape(work.layer, case), dtype)
        result_checks.check_finite(y, counted_tokens(work.layer, case), case.seq_len)
    # It serves for the errors too, unless it depends on random numbers.
    y = y.detach().clone() if case.mode == "forward" and torch.equal(drawn, torch.get_rng_state()) else None
    work.forget()
    reachable, weights_bytes = after_call.reachable_bytes(), after_call.weights_bytes(work)
    held_before += weights_bytes + bytes_of([] if y is None else [y])
    resident, has_threads_again = None, False  # a GPU's driver has threads of its own
    if case.device == "cpu":  # before the profiler starts a thread, which wakes now and then
        resident, has_threads_again = others.work_during(lambda: resident_peak(work.call))
    has_threads &= has_threads_again
    work.forget()
    traced, operations, blocks, _ = allocator_peak(work.call, kind, work.forget)
    kept_bytes = 0
    if after_call.reachable_bytes() > reachable:
        kept_bytes = after_call.kept_by_further_calls(work)
        reachable = reachable if kept_bytes else after_call.reachable_bytes()
    first_call_bytes = max(0, reachable - held_before - kept_bytes)  # the first call keeps as much as every other one
    if first_call_bytes:  # the peak of a call that may free it and make it anew
        traced = allocator_peak(work.call, kind, work.forget, is_second=True).peak
    unknown: list[str] = []
    saved = 0
    if work.gradient is not None:
        kept = (work.forward, work.gradient, kind, work.forget)
        saved = told(lambda: after_call.saved_bytes(*kept), "saved_bytes", unknown)
    work.forget()
    what = "flops, ops, depth, min_bytes, output_bytes, backend_fallback"
    seen = told(lambda: trace_call(work, operations), what, unknown)
    # In decoding, only the last token counts as input. It, its caches and its states are observed as they are read.
    decodes = layer_protocol.decodes_in_steps(work.layer, case)
    inputs = [*([work.x[:, -1].clone()] if decodes else work.inputs), *work.constants]
    packed = 0 if seen is None else seen.packed_bytes
    if packed is None:
        unknown.append("weights_bytes: an operator keeps weights in an object that does not tell its state")
    facts = _watched(seen, unknown, has_threads)
    why_uncounted = uncounted(kind)
    partly = [f"peak_bytes: {why_uncounted}, which does not count"] if why_uncounted else []
    if has_threads:
        partly = [f"peak_bytes: {_OWN_THREADS}"]
    partly = partly or _outside_torch(seen, resident, traced, case.threads)
    unknown += partly
    page_fault_s = peak_rates.page_fault_s() if case.device == "cpu" else None
    with torch.no_grad():  # a layer may have changed its input
        for tensor, value in first:
            tensor.copy_(value)
    with contextlib.suppress(Unsupported):  # no memory is measured any more, and page faults would slow this down
        environment.set_allocator("steady")
    errors = measure_errors(work, case, seed, y, facts["flops"], unknown) if measure_errors is not None else {}
    claimed = claimed_work(case)
    if '"path"' in (claimed["claims"] or "") and case.mode == "forward" and case.lengths == EQUAL:
        with compilation.uncompiled_calls():
            trained = replace(case, mode="train", batch_size=1)
            if missing := told(lambda: result_checks.missing_path(build(trained, seed), case), "path", unknown):
                unknown.append(f"path: {missing}")
    return {
        **facts,
        **errors,
        **claimed,
        **lengths_facts(case),
        "weights_bytes": None if packed is None else weights_bytes + packed,
        "inputs_bytes": bytes_of([*inputs, *([] if work.gradient is None else [work.gradient])]),
        **_peak(case, None if partly else traced + first_call_bytes, saved),
        "first_call_bytes": first_call_bytes,
        "kept_bytes": None if has_threads else kept_bytes,
        "peak_resident_bytes": resident,
        "peak_traced_bytes": None if why_uncounted else traced,
        **_mapped(None if partly else blocks, case.allocator),
        "page_fault_s": page_fault_s,
        "backend": backend_name(operations),
        "facts_unknown": unknown,
    }


def _outside_torch(seen: Observation | None, resident: int | None, traced: int, threads: int) -> list[str]:
    """Return why the peak traced by torch is only a part of the peak, or an empty list if it is all of it."""
    if seen is not None and seen.past_torch and seen.past_allocator:
        return ["peak_bytes: memory that torch has not allocated is a part of it, as numpy's is"]
    if exceeds_traced(resident, traced, threads, seen.ops if seen is not None else 0):
        return [
            "peak_bytes: the process grew by far more memory than torch allocated (`peak_resident_bytes`, "
            "`peak_traced_bytes`): the layer allocates outside torch"
        ]
    return []


def _peak(case: Case, peak: int | None, saved: int | None) -> dict[str, int | None]:
    """Return the peak and its parts, None for each unknown value."""
    if peak is None:
        return dict.fromkeys(("peak_bytes", "saved_bytes", "transient_bytes"))
    transient = peak if case.mode == "backward" else None if saved is None else peak - saved
    return {"peak_bytes": peak, "saved_bytes": saved, "transient_bytes": transient}


def _mapped(blocks: Counter[int] | None, allocator: str) -> dict[str, Any]:
    if blocks is None:
        return {"mapped_bytes": None, "block_sizes": None}
    largest = sorted(blocks.items(), reverse=True)[:RECORDED_SIZES]
    return {"mapped_bytes": mapped_bytes(blocks, allocator), "block_sizes": dumps(largest)}


def told(take: Callable[[], Any], what: str, unknown: list[str]) -> Any:
    """Return `take()`, or None if the layer fails under observation; `unknown` then gets one more line."""
    try:
        return take()
    except (UsageError, MemoryError):
        raise
    except Unobservable as error:
        unknown.append(f"{what}: {error}")
        return None
    except torch.OutOfMemoryError:
        # Of a GPU. A layer runs uncompiled under observation, and may then need far more memory than its calls.
        torch.cuda.empty_cache()
        unknown.append(f"{what}: out of memory while the layer was watched, where it runs uncompiled")
        return None
    except Exception as error:
        # The layer has run before, so only its observation fails. All other facts remain valid.
        line = " ".join(str(error).split())[:200]
        unknown.append(f"{what}: the layer does not run under watch: {type(error).__name__}: {line}")
        return None


_OWN_THREADS = "threads of the layer's own work in its call, and torch counts only the thread that calls"


def hidden_part(flops: Flops, past_torch: bool) -> str:
    """Say which part of a call the observer has not seen; empty if it has seen everything."""
    if compilation.triton_kernels() and not flops.has_own_operators:
        return "a Triton kernel is called past torch's dispatcher, and not seen"
    if past_torch:
        return (
            "a part of its result is of no operation that torch dispatches: of a kernel bound to Python by hand, of "
            "numpy, or of an earlier call"
        )
    return ""


# Facts of the observed call: those of how it is computed, which differ if the layer is compiled, and all of them.
_OF_DEPTH = ("depth", "depth_declared", "fused_depth_declared")
_OF_COMPUTING = ("ops", *_OF_DEPTH, "min_bytes", "read_bytes")
_WATCHED = ("flops", "flops_full", "flops_unknown", *_OF_COMPUTING, "output_bytes", "backend_fallback")


def _watched(seen: Observation | None, unknown: list[str], has_threads: bool) -> dict[str, Any]:
    """Return the facts of the observed call of a layer that may have threads of its own.

    Reasons go to `unknown`.
    """
    nothing = dict.fromkeys(_WATCHED) | {"flops_unknown": []}
    if seen is None:
        return nothing
    read_bytes, made_bytes, output_bytes = seen.traffic
    read_bytes += seen.packed_bytes or 0
    unknown += [f"flops: {name} has no formula; the layer's `kernels` may give one" for name in seen.flops.unknown]
    undeclared = "depth: {} may be a loop of many steps; the layer's `kernels` may give its depth"
    unknown += [undeclared.format(name) for name in seen.flops.undeclared]
    compiled = compilation.graphs() > 0
    if seen.flops.flex_is_dense:
        unknown.append(
            "ops, depth, min_bytes: flex_attention is not compiled and computes every pair: use "
            "torch.compile(flex_attention)"
        )
    elif compiled:
        unknown.append("ops, depth, min_bytes: the layer is compiled, and runs uncompiled while it is watched")
    hidden = "" if compiled else hidden_part(seen.flops, seen.past_torch)
    hidden = _OWN_THREADS if has_threads else hidden
    if hidden:
        unknown.append(f"flops, ops, depth, min_bytes: {hidden}")
        return nothing | {"output_bytes": output_bytes}
    flops, full = seen.flops.work or (None, None)
    depth, declared = seen.depth
    facts = {
        "flops": flops,
        "flops_full": full,
        "flops_unknown": seen.flops.unknown,
        "ops": seen.ops,
        "depth": depth,
        "depth_declared": declared,
        "fused_depth_declared": declared > 0,
        "min_bytes": read_bytes + made_bytes,
        "read_bytes": read_bytes,
        "output_bytes": output_bytes,
        "backend_fallback": seen.fallback,
    }
    if seen.flops.undeclared:
        facts |= dict.fromkeys(_OF_DEPTH)
    return facts | dict.fromkeys(_OF_COMPUTING if compiled else ())
