"""All deterministic facts of a case, taken in a trial of their own.

Peak memory is what one call needs beyond what existed before it: without weights and input, but including the output.
It is measured in two ways, by torch's allocator (`allocator_peak`) and by the operating system (`resident_peak`).
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from json import dumps  # bound before a layer may replace it
from time import perf_counter
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import torch
from torch import Tensor

from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import EQUAL, Case, device_kind
from harness.core.results.columns import RECORDED_SIZES
from harness.core.trial import compilation, device, environment, layer_protocol, peak_rates, result_checks
from harness.core.trial.packed_sequences import lengths_facts
from harness.core.trial.workload import Unsupported, Workload, build, counted_tokens, output_shape

from . import after_call
from .flops import NO_PRODUCT, Flops, claimed_work, operator_table
from .opaque_kernels import Fallback, PackedWeights, backend_name
from .operations import Depth, Observer, Storages, Traffic, Unobservable, UntrackedWrites, tensors_of


class Observation(NamedTuple):
    """Results of one observed call.

    - `are_alike`: whether further calls did the same operations.
    - `facts`: those that `collect_metrics` returns, with the least traffic of what existed before and of intermediates.
    - `packed_bytes`: see `PackedWeights`.
    - `past_torch`: whether something that torch does not dispatch contributed to the result.
    - `written`: knows whether it did so in memory that is not torch's.
    - `is_read_by_python`: see `Depth`.
    """

    are_alike: bool
    flops: Flops
    facts: dict[str, Any]
    packed_bytes: int | None
    past_torch: bool
    written: UntrackedWrites
    is_read_by_python: bool


class ObservedCall(NamedTuple):
    """One `call`, its operations as `Observer.seen`, the tensors `known` to exist before it, and its outputs.

    `call` and the outputs hold what else the call has read, such as the tensors that a forward pass saved for a
    backward pass. Freed memory would look like memory that was made outside torch during the call.
    """

    call: Callable[[], Any]
    operations: list[Any]
    known: list[Tensor]
    outputs: list[Tensor]


def observe_call(work: Workload, storages: Storages, counts: Iterable[Callable[[Any], object]]) -> ObservedCall:
    """Call the workload once. Each of `counts` is called with every `Operation`.

    Raises Unobservable, or whatever the layer raises under observation.
    """
    observer = Observer(storages, counts)
    leaves = [*work.inputs, *work.layer.parameters(), *work.layer.buffers()]
    for leaf in leaves:
        storages.key(leaf)
    with device.uncompiled_calls():  # otherwise the compiler would trace into the observer
        call = work.remake()  # for a backward pass, this makes a graph that is not compiled
        with observer, _noting_what_passes_torch(storages):
            result = call()
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    known = [*leaves, *work.constants, *tensors_of(work.gradient)]
    return ObservedCall(call, observer.seen, known, [*tensors_of(result), *gradients])


# Methods by which Python reads a tensor's size.
_TELL_SIZES = "size numel nelement __len__ __iter__"


def _preceded_by(note: Callable[..., object], call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*arguments: Any, **options: Any) -> Any:
        note(*arguments, **options)
        return call(*arguments, **options)

    return noted


@contextlib.contextmanager
def _noting_what_passes_torch(storages: Storages) -> Iterator[None]:
    """Note what leaves torch, and the lengths of `pad_packed_sequence`, which torch's C++ fills past its dispatcher."""
    unpack = torch._VF._pad_packed_sequence
    autograd = cast(Any, torch.autograd)

    def unpacked(*arguments: Any) -> tuple[Tensor, Tensor]:
        padded, lengths = unpack(*arguments)
        storages.unwritten.discard(storages.key(lengths))
        return padded, lengths

    def note_outside(*_: Any, **__: Any) -> None:
        storages.is_read_outside = True

    def note_numbers(tensor: Tensor) -> None:
        is_whole = not (tensor.dtype.is_floating_point or tensor.dtype.is_complex)
        storages.left[is_whole].add(storages.key(tensor))
        storages.note_read(tensor)

    def note_places(_: Tensor, *arguments: Any, **options: Any) -> None:  # torch's C++ reads them
        for places in tensors_of([*arguments, *options.values()]):
            storages.note_read(places)

    def note_size(tensor: Tensor, *_: Any, **__: Any) -> None:
        # Inside an operation, no mode is on the stack: the harness itself reads the size.
        is_by_layer = torch._C._len_torch_dispatch_stack() > 0
        sized = storages.sized_by_data
        if is_by_layer and sized and storages.key(tensor) in sized:
            storages.note_read(tensor)

    notes: dict[str, Callable[..., object]] = dict.fromkeys(_TELL_SIZES.split(), note_size)
    notes |= {"numpy": note_outside, "__dlpack__": note_outside, "tolist": note_numbers, "tensor_split": note_places}
    noting: dict[str, Any] = {name: _preceded_by(note, getattr(Tensor, name)) for name, note in notes.items()}
    noting["shape"] = property(_preceded_by(note_size, cast(Any, Tensor.shape).__get__))
    run = _preceded_by(storages.watch_graph, autograd._engine_run_backward)
    with (
        patch.object(torch._VF, "_pad_packed_sequence", unpacked),
        patch.object(torch, "tensor_split", _preceded_by(note_places, torch.tensor_split)),
        patch.object(autograd, "_engine_run_backward", run),
        patch.multiple(Tensor, **noting),
    ):
        yield


def trace_call(work: Workload, ran: Iterable[str] = ()) -> Observation:
    """Count the facts of one call. Raises as `observe_call` does. `ran` is as for `Flops`."""
    storages = Storages()
    flops = Flops(getattr(type(work.layer), "kernels", None), ran)
    depth = Depth(flops.declared_depth, storages)
    traffic = Traffic(storages, flops.in_place, flops.forward_sums)
    written = UntrackedWrites(storages)
    fallback = Fallback()
    packed = PackedWeights()
    counts = (flops.add, depth.add, traffic.add, written.add, fallback.add, packed.add)
    seen = observe_call(work, storages, counts)
    work_done, full = flops.work or (None, None)
    read_bytes, moved_bytes, output_bytes = traffic.totals(seen.outputs)
    read_bytes += packed.bytes() or 0
    length, declared = depth.longest
    facts = {
        "flops": work_done,
        "flops_full": full,
        "flops_unknown": flops.unknown,
        "ops": len(seen.operations),
        "depth": length,
        "depth_declared": declared,
        "fused_depth_declared": declared > 0,
        "min_bytes": None if moved_bytes is None else read_bytes + moved_bytes,
        "read_bytes": read_bytes,
        "output_bytes": output_bytes,
        "backend_fallback": fallback.reason,
    }
    past_torch = written.past_torch(seen.known, seen.outputs)
    return Observation(_are_alike(seen), flops, facts, packed.bytes(), past_torch, written, depth.is_read_by_python)


# A layer that does more at every fourth call, or more often, does so in the observed call or in one of so many more.
_FURTHER_CALLS = 3


def _are_alike(seen: ObservedCall) -> bool:
    """Whether further calls do the same operations, on tensors of the same shapes."""
    ends = perf_counter() + 2.0
    for _ in range(_FURTHER_CALLS):
        with device.uncompiled_calls(), Observer(Storages(), ()) as observer:
            seen.call()
        if observer.seen != seen.operations:
            return False
        if perf_counter() > ends:
            break
    return True


# Measures the errors of a workload (see `harness.core.trial.accuracy`).
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
    | `weights_bytes` | parameters, buffers, tensors in other attributes before the first call, and packed weights |
    | `inputs_bytes` | inputs, masks, caches and states; in `train` and `backward` also the output's gradient |
    | `output_bytes` | outputs; in `train` and `backward` also all other gradients |
    | `peak_bytes` | the peak beyond weights and inputs, including outputs; None if torch allocated only a part of it |
    | `first_call_bytes` | the part of the peak that the first call has made and that stays, such as a table |
    | `kept_bytes` | the bytes that each further call keeps beyond its results, the mean of eight |
    | `saved_bytes` | the part of the peak that the forward pass saves for the backward pass |
    | `transient_bytes` | the rest of the peak; in `backward` all of it, because `saved_bytes` existed before |
    | `peak_resident_bytes` | the peak as seen by the operating system's kernel; None on a GPU |
    | `peak_traced_bytes` | the peak of what torch's allocator handed out, even if others allocated as well |
    | `mapped_bytes` | the bytes that every call maps anew (see `mapped_bytes`); None on a GPU, and outside torch |
    | `block_sizes` | the eight largest sizes of blocks, each with its number of blocks, as JSON; None as above |
    | `page_fault_s` | the seconds of one page fault, measured once; None on a GPU |
    | `lengths_as`, `real_tokens`, … | see `harness.core.trial.packed_sequences` |
    | `output_error`, `gradient_error`, … | see `harness.core.trial.accuracy` |
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
        device.leave_out_workspaces(torch.__version__)
    others = after_call.OtherThreads()
    work = build(case, seed)
    changed = [*work.inputs, *work.varying]
    first = [tensor.detach().clone() for tensor in changed]
    drawn = torch.get_rng_state()
    weights, tables = after_call.memory_of_layer(work)
    held_before = after_call.reachable_bytes() - device.size_of(weights)
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
    reachable = after_call.reachable_bytes()
    weights, _ = after_call.memory_of_layer(work)  # the first call may have grown them
    held_before += device.size_of(weights) + device.bytes_of(tensors_of(y))
    resident, has_threads_again = None, False  # a GPU's driver has threads of its own
    if case.device == "cpu":  # before the profiler starts a thread, which wakes now and then
        resident, has_threads_again = others.work_during(lambda: device.resident_peak(work.call))
    has_threads &= has_threads_again
    work.forget()
    traced, operations, blocks, _ = device.allocator_peak(work.call, kind, work.forget)
    unknown: list[str] = []
    kept_bytes, is_uneven, reachable = told(
        partial(after_call.kept_by_further_calls, work, reachable), "kept_bytes", unknown
    ) or (None, False, reachable)
    # The first call keeps as much as every other one.
    first_call_bytes = max(0, reachable - held_before - (kept_bytes or 0))
    if first_call_bytes:  # the peak of a call that may free it and make it anew
        for _ in range(2):  # the second one sees what of the first is freed
            traced = device.allocator_peak(work.call, kind, work.forget).peak
    saved = 0
    if work.gradient is not None:
        saved = told(
            partial(after_call.saved_bytes, work.forward, work.gradient, kind, work.forget), "saved_bytes", unknown
        )
    work.forget()
    seen = told(
        lambda: trace_call(work, operations), "flops, ops, depth, min_bytes, output_bytes, backend_fallback", unknown
    )
    # In decoding, only the last token counts as input. It, its caches and its states are observed as they are read.
    decodes = layer_protocol.decodes_in_steps(work.layer, case)
    inputs = [*([work.x[:, -1].clone()] if decodes else work.inputs), *work.constants]
    packed = seen.packed_bytes if seen else 0
    if packed is None:
        unknown.append("weights_bytes: an operator keeps weights in an object that does not tell its state")
    is_unlike = bool(seen) and not seen.are_alike
    # Threads also make calls differ, now and then.
    hidden = _OWN_THREADS if has_threads else _UNLIKE_CALLS if is_unlike else ""
    facts = _watched(seen, unknown, hidden)
    why_uncounted = device.uncounted(kind)
    partly = ""
    is_uneven |= is_unlike or has_threads
    if max(first_call_bytes, kept_bytes or 0) >= after_call.ANY_MEMORY:
        partly = "peak_bytes, first_call_bytes, kept_bytes: this torch does not tell what the graphs that it keeps hold"
        is_uneven, kept_bytes = True, None
    elif is_uneven:
        partly = f"peak_bytes, first_call_bytes: {hidden or _UNLIKE_CALLS}"
    elif why_uncounted:
        partly = f"peak_bytes: {why_uncounted}, which does not count"
    elif seen and seen.past_torch and seen.written.somebody_elses:
        partly = "peak_bytes: memory that torch has not allocated is a part of it, as numpy's is"
    elif device.exceeds_traced(resident, traced, case.threads, seen.facts["ops"] if seen else 0):
        partly = (
            "peak_bytes: the process grew by far more memory than torch allocated (`peak_resident_bytes`, "
            "`peak_traced_bytes`): the layer allocates outside torch"
        )
    if partly:
        unknown.append(partly)
    page_fault_s = peak_rates.page_fault_s() if case.device == "cpu" else None
    device.fill_tensors(changed, first)  # a layer may have changed its input
    with contextlib.suppress(Unsupported):  # no memory is measured any more, and page faults would slow this down
        environment.set_allocator("steady")
    errors = measure_errors(work, case, seed, y, facts["flops"], unknown) if measure_errors is not None else {}
    claimed = claimed_work(case)
    if '"path"' in (claimed["claims"] or "") and case.mode == "forward" and case.lengths == EQUAL:
        with device.uncompiled_calls():
            trained = replace(case, mode="train", batch_size=1)
            if missing := told(lambda: result_checks.missing_path(build(trained, seed), case), "path", unknown):
                unknown.append(f"path: {missing}")
    in_peak = 0 if case.mode == "backward" else saved
    return {
        **facts,
        **errors,
        **claimed,
        **lengths_facts(case),
        "weights_bytes": None if packed is None else device.size_of(weights | tables) + packed,
        "inputs_bytes": device.bytes_of([*inputs, *tensors_of(work.gradient)]),
        "peak_bytes": traced + first_call_bytes,
        "saved_bytes": saved,
        "transient_bytes": None if in_peak is None else traced + first_call_bytes - in_peak,
        "first_call_bytes": None if is_uneven else first_call_bytes,
        "kept_bytes": None if has_threads else kept_bytes,
        "peak_resident_bytes": resident,
        "peak_traced_bytes": None if why_uncounted else traced,
        "mapped_bytes": None if blocks is None else device.mapped_bytes(blocks, case.allocator),
        "block_sizes": None if blocks is None else dumps(sorted(blocks.items(), reverse=True)[:RECORDED_SIZES]),
        "page_fault_s": page_fault_s,
        "backend": backend_name(operations),
        "facts_unknown": unknown,
    } | dict.fromkeys(_OF_PEAK if partly else ())


_OF_PEAK = ("peak_bytes", "saved_bytes", "transient_bytes", "mapped_bytes", "block_sizes")


def told(take: Callable[[], Any], what: str, unknown: list[str]) -> Any:
    """Return `take()`, or None if the layer fails under observation; `unknown` then gets one more line."""
    try:
        return take()
    except (UsageError, MemoryError):
        raise
    except Unobservable as error:
        reason = str(error)
    except torch.OutOfMemoryError:
        # Of a GPU. A layer runs uncompiled under observation, and may then need far more memory than its calls.
        torch.cuda.empty_cache()
        reason = "out of memory while the layer was watched, where it runs uncompiled"
    except Exception as error:
        # The layer has run before, so only its observation fails. All other facts remain valid.
        line = " ".join(str(error).split())[:200]
        reason = f"the layer does not run under watch: {type(error).__name__}: {line}"
    unknown.append(f"{what}: {reason}")
    return None


_UNLIKE_CALLS = "its calls differ from each other"
_OWN_THREADS = "threads of the layer's own work in its call, and torch counts only the thread that calls"


def hidden_part(flops: Flops, past_torch: bool) -> str:
    """Say which part of a call the observer has not seen; empty if it has seen everything."""
    if compilation.triton_kernels() and not flops.has_own_operators:
        return "a Triton kernel is called past torch's dispatcher, and not seen"
    if past_torch:
        return (
            "a part of its result is of no operation that torch dispatches: of a kernel bound to Python by hand, of "
            "numpy or Python's numbers, or of an earlier call"
        )
    return ""


# Facts of the observed call: those of how it is computed, which differ if the layer is compiled, and all of them.
_OF_DEPTH = ("depth", "depth_declared", "fused_depth_declared")
_OF_COMPUTING = ("ops", *_OF_DEPTH, "min_bytes", "read_bytes")
_WATCHED = ("flops", "flops_full", "flops_unknown", *_OF_COMPUTING, "output_bytes", "backend_fallback")


def _watched(seen: Observation | None, unknown: list[str], hidden: str) -> dict[str, Any]:
    """Return the facts of the observed call. Reasons go to `unknown`.

    `hidden` is why nothing is known of the call, or empty.
    """
    nothing = dict.fromkeys(_WATCHED) | {"flops_unknown": []}
    if seen is None:
        return nothing
    unknown += [f"flops: {name} has no formula; the layer's `kernels` may give one" for name in seen.flops.unknown]
    why = "may be a loop of many steps; the layer's `kernels` may give its depth"
    unknown += [f"depth: {name} {why}" for name in seen.flops.undeclared]
    compiled = compilation.graphs() > 0
    if seen.flops.flex_is_dense:
        unknown.append(
            "ops, depth, min_bytes: flex_attention is not compiled and computes every pair: use "
            "torch.compile(flex_attention)"
        )
    elif compiled:
        unknown.append("ops, depth, min_bytes: the layer is compiled, and runs uncompiled while it is watched")
    if not hidden and not compiled:
        hidden = hidden_part(seen.flops, seen.past_torch)
    if hidden:
        unknown.append(f"flops, ops, depth, min_bytes: {hidden}")
        return nothing | {"output_bytes": seen.facts["output_bytes"]}
    if seen.is_read_by_python:
        unknown.append("depth: Python reads a number or a size that the call computes, and what needs it is not seen")
    if seen.facts["min_bytes"] is None:
        unknown.append("min_bytes: which sums of the forward pass torch computes in place is not known")
    altered = [] if compiled or seen.flops.flex_is_dense else seen.flops.altered
    of_work = () if operator_table(NO_PRODUCT).issuperset(altered) else ("flops", "flops_full")
    if altered:
        what = ", ".join([*of_work, "ops, depth, min_bytes"])
        unknown.append(f"{what}: torch runs {', '.join(altered[:3])} only under observation, in place of others")
    of_depth = dict.fromkeys(_OF_DEPTH if seen.flops.undeclared or seen.is_read_by_python else ())
    return seen.facts | of_depth | dict.fromkeys((*of_work, *_OF_COMPUTING) if compiled or altered else ())
