"""All deterministic facts of a case, taken in a trial of their own.

Peak memory is what one call needs beyond weights and input, with its output (see `harness.core.trial.call_memory`).

| key | meaning |
| --- | --- |
| `flops`, `flops_full` | FLOPs, a multiply-add being 2: what a causal mask leaves of fused kernels; without the mask |
| `flops_claimed` | the FLOPs that the layer claims; None without a claim |
| `claims` | all claims of a user's own layer, as JSON; None for built-in layers, whose claims are in the registry |
| `ops`, `depth` | dispatched operations, including views; operations on the longest chain |
| `depth_declared` | how many operations of it opaque kernels declare |
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
| `peak_resident_bytes`, `peak_traced_bytes` | the peak by the operating system's kernel; by torch's allocator alone |
| `mapped_bytes` | the bytes that every call maps anew (see `mapped_bytes`); None on a GPU, and outside torch |
| `block_sizes` | the eight largest sizes of blocks, each with its number of blocks, as JSON; None as above |
| `page_fault_s` | the seconds of one page fault, measured once; None on a GPU |
| `lengths_as`, …, `output_error`, … | see `harness.core.trial.packed_sequences`, `harness.core.trial.accuracy` |
| `backend`, `backend_fallback` | the kernel that ran; one sentence if a faster one was allowed, else None |
| `facts_unknown` | one line for each reason why a value above is None |
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from json import dumps  # bound before a layer may replace it
from time import perf_counter
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from harness.core.model.sweep_axes import EQUAL, Case
from harness.core.results.columns import RECORDED_SIZES

from .. import call_memory, compilation, device, environment, layer_protocol, peak_rates, result_checks
from ..device_kinds import DEVICES
from ..packed_sequences import lengths_facts
from ..sandbox import Answer
from ..workload import Call, Unsupported, Workload, build, counted_tokens, output_shape, returned
from . import after_call
from .flops import NO_PRODUCT, Flops, claimed_work, operator_table
from .opaque_kernels import Fallback, PackedWeights, backend_name
from .operations import Depth, Observer, Storages, Traffic, UntrackedWrites, tensors_of
from .partial_reads import CHOOSING


class Observation(NamedTuple):
    """Results of one observed call.

    - `are_alike`: whether further calls, on other values of the input, ran the same operators.
    - `by_values`: the names of facts that differ in further calls that did.
    - `facts`: those that `collect_metrics` returns, with the least traffic of what existed before and of intermediates.
    - `packed`, `operations`, `is_read_by_python`: see `PackedWeights`, `Observer.seen` and `Depth`.
    - `past_torch`: whether something that torch does not dispatch contributed to the result.
    - `by_arrays`: whether memory from outside torch, as of numpy, takes part in it, which torch does not count.
    """

    are_alike: bool
    flops: Flops
    facts: Answer
    packed: PackedWeights
    past_torch: bool
    by_arrays: bool
    is_read_by_python: bool
    operations: list[Any]
    by_values: Sequence[str] = ()


class ObservedCall(NamedTuple):
    """One `call`, its operations as `Observer.seen`, the tensors `known` to exist before it, its outputs and states.

    `call` and the outputs hold what else the call has read, as what a forward pass saved for a backward pass. Freed
    memory would look like memory that was made outside torch during the call.
    """

    call: Call
    operations: list[Any]
    known: list[Tensor]
    outputs: list[Tensor]
    states: list[Tensor]


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
            result, *states = returned(call)
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    known = [*leaves, *work.constants, *tensors_of(work.gradient)]
    return ObservedCall(call, observer.seen, known, [*tensors_of(result), *gradients], list(device.tensors_in(states)))


def _preceded_by(note: Callable[..., object], call: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*arguments: Any, **options: Any) -> Any:
        note(*arguments, **options)
        return call(*arguments, **options)

    return noted


@contextmanager
def _noting_what_passes_torch(storages: Storages) -> Iterator[None]:
    """Note what leaves torch, and the lengths of `pad_packed_sequence`, which torch's C++ fills past its dispatcher."""
    unpack = torch._VF._pad_packed_sequence
    autograd: Any = torch.autograd

    def unpacked(*arguments: Any) -> tuple[Tensor, Tensor]:
        padded, lengths = unpack(*arguments)
        storages.unwritten.discard(storages.key(lengths))
        return padded, lengths

    def note_outside(*_: Any, **__: Any) -> None:
        storages.is_read_outside, storages.arrays = True, {("numpy", 0, 0)}

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

    notes: dict[str, Any] = dict.fromkeys(("size", "numel", "nelement", "stride", "__len__", "__iter__"), note_size)
    notes |= {"numpy": note_outside, "__dlpack__": note_outside, "tolist": note_numbers, "tensor_split": note_places}
    noting: dict[str, Any] = {name: _preceded_by(note, getattr(Tensor, name)) for name, note in notes.items()}
    noting |= {name: property(_preceded_by(note_size, getattr(Tensor, name).__get__)) for name in ("shape", "nbytes")}
    run = _preceded_by(storages.watch_graph, autograd._engine_run_backward)
    with (
        patch.object(torch._VF, "_pad_packed_sequence", unpacked),
        patch.object(torch, "numel", _preceded_by(note_size, torch.numel)),
        patch.object(torch, "tensor_split", _preceded_by(note_places, torch.tensor_split)),
        patch.object(autograd, "_engine_run_backward", run),
        patch.multiple(Tensor, **noting),
    ):
        yield


def trace_call(work: Workload, ran: Iterable[str] = (), is_compared: bool = True) -> Observation:
    """Count the facts of one call, and compare it with further ones. They leave other values in the input.

    Raises as `observe_call` does. `ran` is as for `Flops`.
    """
    before = set().union(*after_call.memory_of_layer(work), device.memory_of(work.constants))
    storages = Storages()
    flops = Flops(getattr(type(work.layer), "kernels", None), ran)
    depth = Depth(flops.declared_depth, storages)
    traffic = Traffic(storages, flops.in_place, flops.forward_sums, flops.copied_sums)
    written = UntrackedWrites(storages)
    fallback = Fallback()
    packed = PackedWeights()
    seen = observe_call(work, storages, [flops.add, depth.add, traffic.add, written.add, fallback.add, packed.add])
    work_done, full = flops.work or (None, None)
    read_bytes, moved_bytes, output_bytes = traffic.totals(seen.outputs, seen.states)
    read_bytes += packed.bytes() or 0
    length, declared = depth.longest
    facts = {
        "flops": work_done,
        "flops_full": full,
        "ops": len(seen.operations),
        "depth": length,
        "depth_declared": declared,
        "min_bytes": None if moved_bytes is None else read_bytes + moved_bytes,
        "read_bytes": read_bytes,
        "output_bytes": output_bytes,
        "backend_fallback": fallback.reason,
    }
    past_torch = written.past_torch(seen.known, seen.outputs)
    reads = past_torch, bool(storages.arrays if past_torch else storages.arrays - before), depth.is_read_by_python
    observation = Observation(True, flops, facts, packed, *reads, seen.operations)
    del seen  # with its graph
    return _compared(work, ran, observation) if is_compared else observation


# Inputs of further calls, as multiples of the one before. One call of so many more shows what every fourth one does.
_FACTORS = (1.0, 4.0, 1 / 16)


def _compared(work: Workload, ran: Iterable[str], first: Observation) -> Observation:
    """Compare the observation with further calls on other values of the input, and return it with what differs."""
    chooses = any(name.removeprefix("aten::") in CHOOSING for name in first.flops.names)
    differing, ends = set[str](), perf_counter() + 2.0
    for factor in _FACTORS:
        result_checks.renew_inputs(work, factor)
        with device.uncompiled_calls():
            call = work.remake()
            with Observer(Storages(), ()) as observer:
                call()
        del call
        if [operator for operator, _ in observer.seen] != [operator for operator, _ in first.operations]:
            return first._replace(are_alike=False)
        if observer.seen != first.operations:
            differing.add("peak_bytes")
        if chooses or differing:
            other = trace_call(work, ran, is_compared=False)
            if other.operations != observer.seen:  # on the same input
                return first._replace(are_alike=False)
            differing |= {name for name, value in other.facts.items() if value != first.facts[name]}
        if perf_counter() > ends:
            break
    return first._replace(by_values=sorted(differing))


class Memory(NamedTuple):
    """What the first call and further ones have shown: `facts` of memory, and `operations` as in `Allocated`.

    `packed` are weights that the layer held before. `output` is a copy of the first one in `forward`, or None if it
    depends on random numbers. `has_threads`: others worked during each call. `is_uneven`: calls keep unlike amounts.
    """

    facts: Answer
    packed: PackedWeights
    output: Tensor | None
    operations: list[str]
    has_threads: bool
    is_uneven: bool


def _memory_of_calls(case: Case, work: Workload, others: after_call.OtherThreads, unknown: list[str]) -> Memory:
    """Measure the memory of calls of a new workload. Reasons go to `unknown`, as those of `told`.

    Raises WrongResult if the first output is none that the layer may return.
    """
    kind = case.device
    # The first call loads pools, caches and code, which are not the call's memory.
    device.seed_draws(0)
    packed = PackedWeights(device.things_in(work.layer, ModuleType))
    weights, tables = after_call.memory_of_layer(work)
    before = after_call.reachable()
    y, has_threads = others.work_during(work.call)
    work.sync()
    y = _checked_output(case, work, y)
    if device.has_drawn(0, kind):
        y = None
    work.forget()
    after = after_call.reachable()
    grown, _ = after_call.memory_of_layer(work)
    held_before = before.size + device.size_of(grown) - device.size_of(weights) + device.bytes_of(tensors_of(y))
    kept = partial(after_call.kept_by_further_calls, work, after)
    kept_bytes, is_uneven, after = after_call.told(kept, "kept_bytes", unknown) or (None, False, after)
    resident, works_again = None, False  # a GPU's driver has threads of its own
    # After the calls in which TorchScript compiles, and before the profiler starts a thread, which wakes now and then.
    if kind == "cpu":
        resident, works_again = others.work_during(lambda: call_memory.resident_peak(work.call))
    has_threads &= works_again
    work.forget()
    if after.untold > before.untold:
        unknown.append(
            "peak_bytes, first_call_bytes, kept_bytes: torch does not tell what graphs or packed weights that stay hold"
        )
    kept_by_each = kept_bytes or 0  # by the first call too
    first_call_bytes = max(0, after.size - held_before - kept_by_each)
    for _ in range(after_call.FILLING_CALLS):
        traced, operations, blocks, left = call_memory.allocator_peak(work.call, kind, work.forget)
        if blocks is None or left <= kept_by_each:
            break
        # It has freed memory of a call that the profiler has not seen. The next one frees memory of this call.
    else:
        unknown.append("peak_bytes: its calls free memory of earlier ones, and torch does not tell when")
    saved = 0
    if work.gradient is not None:
        save = partial(after_call.saved_bytes, work.forward, work.gradient, kind, work.forget)
        saved = after_call.told(save, "saved_bytes", unknown)
    work.forget()
    peak = traced + first_call_bytes
    in_peak = 0 if case.mode == "backward" else saved
    facts = {
        "weights_bytes": device.size_of(grown | tables),
        "peak_bytes": peak,
        "saved_bytes": saved,
        "transient_bytes": None if in_peak is None else peak - in_peak,
        "first_call_bytes": first_call_bytes,
        "kept_bytes": None if has_threads else kept_bytes,
        "peak_resident_bytes": resident,
        "peak_traced_bytes": None if DEVICES[kind].uncounted() else traced,
    }
    if blocks is not None:
        facts["page_fault_s"] = peak_rates.page_fault_s()
        facts["mapped_bytes"] = call_memory.mapped_bytes(blocks, case.allocator)
        facts["block_sizes"] = dumps(sorted(blocks.items(), reverse=True)[:RECORDED_SIZES])
    return Memory(facts, packed, y, operations, has_threads, is_uneven)


def _checked_output(case: Case, work: Workload, y: Any) -> Tensor | None:
    """A copy of the output in `forward`, else None. Raises WrongResult if it is none that the layer may return."""
    if case.mode not in ("forward", "train"):
        return None
    dtype = layer_protocol.output_dtype(work.layer, case.dtype)
    y = result_checks.check_output(y, work.x, output_shape(work.layer, case), dtype)
    result_checks.check_finite(y, counted_tokens(work.layer, case), case.seq_len)
    return y.detach().clone() if case.mode == "forward" else None


def collect_metrics(case: Case, seed: int, measure_errors: Callable[..., Answer] | None = None) -> Answer:
    """Return the facts of a case: what a call computes, moves and allocates, which kernel runs, and how accurate it is.

    Errors are those that `measure_errors` returns, as `measure_accuracy`; without it, none are measured. The result is
    the same each time. Each kind of fact is taken in a separate call, so that taking one does not disturb another.
    """
    # glibc shall return each large block when it is freed. With blocks on its heap, a resident peak varied fourfold.
    with suppress(Unsupported):  # without glibc
        environment.set_allocator("fresh")
    if case.device == "cuda":
        call_memory.leave_out_workspaces(torch.__version__)
    others = after_call.OtherThreads()
    work = build(case, seed)
    changed = [*work.inputs, *work.varying]
    values = [tensor.detach().clone() for tensor in changed]
    unknown = list[str]()
    memory = _memory_of_calls(case, work, others, unknown)
    trace = partial(trace_call, work, memory.operations)
    seen = after_call.told(trace, "flops, ops, depth, min_bytes, backend_fallback", unknown)
    # In decoding, only the last token counts as input. It, its caches and its states are observed as they are read.
    inputs = [work.x[:, -1].clone()] if layer_protocol.decodes_in_steps(work.layer, case) else work.inputs
    given = device.memory_of([*inputs, *work.constants, *tensors_of(work.gradient)])
    facts = {
        **memory.facts,
        "inputs_bytes": device.size_of(given - device.memory_of([*work.layer.parameters(), *work.layer.buffers()])),
        "backend": backend_name(memory.operations),
    }
    unknown += [*_reasons_of_call(memory, seen), *_reasons_of_peak(case, memory, seen)]
    if seen:
        facts |= seen.facts
        memory.packed.objects.update(seen.packed.objects)
    facts["weights_bytes"] += memory.packed.bytes() or 0
    unknown += memory.packed.reasons(memory.operations)
    facts |= _unknown_facts(unknown)
    device.fill_tensors(changed, values)  # a layer may have changed its input
    with suppress(Unsupported):  # no memory is measured any more, and page faults would slow this down
        environment.set_allocator("steady")
    if measure_errors is not None:
        facts |= measure_errors(work, case, seed, memory.output, facts["flops"], unknown)
    claimed = claimed_work(case)
    if '"path"' in (claimed["claims"] or "") and case.mode == "forward" and case.lengths == EQUAL:
        trained = replace(case, mode="train", batch_size=1)
        with device.uncompiled_calls():
            missing = after_call.told(lambda: result_checks.missing_path(build(trained, seed), case), "path", unknown)
        if missing:
            unknown.append(f"path: {missing}")
    return facts | claimed | lengths_facts(case) | {"facts_unknown": unknown}


# What follows from a fact, and is unknown if the fact is.
_FOLLOWING = {
    "flops": ("flops_full",),
    "ops": ("read_bytes",),
    "depth": ("depth_declared",),
    "backend_fallback": ("output_bytes",),
    "peak_bytes": ("saved_bytes", "transient_bytes", "mapped_bytes", "block_sizes"),
}


def _unknown_facts(unknown: list[str]) -> dict[str, None]:
    """None for each fact that a line of `unknown` names before its colon, and for what follows from the fact."""
    names = ", ".join(line.partition(":")[0] for line in unknown).split(", ")
    return dict.fromkeys(after for name in names for after in (name, *_FOLLOWING.get(name, ())))


_UNLIKE_CALLS = "its calls differ from each other, or with the values of the input"


def hidden_part(flops: Flops, past_torch: bool) -> str:
    """Say which part of a call the observer has not seen; empty if it has seen everything."""
    if compilation.triton_kernels() and not flops.has_own_operators:
        return "a Triton kernel is called past torch's dispatcher, and not seen"
    if past_torch:
        return "a part of its result may be of a kernel bound by hand, numpy or Python's numbers, or of an earlier call"
    return ""


def _reasons_of_call(memory: Memory, seen: Observation | None) -> Iterator[str]:
    """Why facts of the observed call are unknown: a line for each reason, with the names of the facts."""
    if seen is None:
        return
    flops = seen.flops
    if seen.by_values:
        yield f"{', '.join(seen.by_values)}: {_UNLIKE_CALLS}"
    for name in flops.unknown:
        yield f"flops: {name} has no formula; the layer's `kernels` may give one"
    for name in flops.undeclared:
        yield f"depth: {name} may be a loop of many steps; the layer's `kernels` may give its depth"
    compiled = compilation.graphs() > 0
    if flops.flex_is_dense:
        how = "flex_attention is not compiled and computes every pair: use torch.compile(flex_attention)"
        yield f"ops, depth, min_bytes: {how}"
    elif compiled:
        yield "ops, depth, min_bytes: the layer is compiled, and runs uncompiled while it is watched"
    hidden = _why_unlike(memory, seen)
    if not hidden and not compiled:
        hidden = hidden_part(flops, seen.past_torch)
    if hidden:
        seen.facts["backend_fallback"] = None  # it may be that of another call
        yield f"flops, ops, depth, min_bytes: {hidden}"
        return
    if seen.is_read_by_python:
        yield "depth: Python reads a number or a size that the call computes, and what needs it is not seen"
    if seen.facts["min_bytes"] is None:
        yield "min_bytes: which sums torch computes in place is not known"
    if flops.altered and not compiled and not flops.flex_is_dense:
        of_work = "" if operator_table(NO_PRODUCT).issuperset(flops.altered) else "flops, "
        names = ", ".join(flops.altered[:3])
        yield f"{of_work}ops, depth, min_bytes: torch runs {names} only under observation, in place of others"


def _reasons_of_peak(case: Case, memory: Memory, seen: Observation | None) -> Iterator[str]:
    """As `_reasons_of_call`, for the peak: one line at most."""
    unlike, why_uncounted = _why_unlike(memory, seen), DEVICES[case.device].uncounted()
    resident, traced = memory.facts["peak_resident_bytes"], memory.facts["peak_traced_bytes"]
    if unlike or memory.is_uneven:
        yield f"peak_bytes, first_call_bytes: {unlike or _UNLIKE_CALLS}"
    elif why_uncounted:
        yield f"peak_bytes: {why_uncounted}, which does not count"
    elif seen and seen.by_arrays:
        yield "peak_bytes: memory from outside torch, as of numpy, takes part in the call, and torch does not count it"
    elif call_memory.exceeds_traced(resident, traced, case.threads, seen.facts["ops"] if seen else 0):
        yield "peak_bytes: the process grew by far more memory than torch allocated: the layer allocates outside torch"


def _why_unlike(memory: Memory, seen: Observation | None) -> str:
    """Why an observed call tells nothing of others; empty if it does. Threads also make calls differ, now and then."""
    if memory.has_threads:
        return "threads of the layer's own work in its call, and torch counts only the thread that calls"
    return _UNLIKE_CALLS if seen and not seen.are_alike else ""
