"""All facts of a case, taken in a trial of their own."""

from collections.abc import Callable, Iterable
from json import dumps  # bound before a layer may replace it
from typing import Any, TypeVar

import torch

from harness import catalog, claims
from harness.case import Case
from harness.errors import UsageError
from harness.trial.build import Workload, build
from harness.trial.contract import output_dtype
from harness.trial.facts.backend import backend
from harness.trial.facts.memory import allocator_peak, exceeds_traced, resident_peak, return_freed_blocks
from harness.trial.facts.observe import Observation, observe
from harness.trial.facts.saved import saved_bytes
from harness.trial.given import counted
from harness.trial.relative import check_finite, check_output
from harness.trial.timing.compiled import graphs, triton_kernels

_Fact = TypeVar("_Fact")


def take_facts(case: Case, seed: int) -> dict[str, Any]:
    """Return what one call of the case computes, moves and allocates, and which kernel it runs.

    The result is the same each time.

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
    | `min_bytes` | the least traffic: weights, inputs and outputs once, intermediates written and read once |
    | `weights_bytes` | parameters and buffers |
    | `inputs_bytes` | inputs, masks, caches and states; in `train` and `backward` also the output's gradient |
    | `output_bytes` | outputs; in `train` and `backward` also all other gradients |
    | `peak_bytes` | the peak beyond weights and inputs, including outputs; None if torch allocated only a part of it |
    | `saved_bytes` | the part of the peak that the forward pass saves for the backward pass |
    | `transient_bytes` | the rest of the peak; in `backward` all of it, because `saved_bytes` existed before |
    | `peak_resident_bytes` | the peak as seen by the operating system's kernel; None on a GPU |
    | `peak_traced_bytes` | the peak of what torch's allocator handed out, even if others allocated as well |
    | `backend` | the kernel that ran |
    | `backend_fallback` | one sentence if a faster kernel was allowed, else None |
    | `facts_unknown` | one line for each reason why a value above is None |

    Each kind of fact is taken in a separate call, so that taking one does not disturb another.
    """
    return_freed_blocks()
    work = build(case, seed)
    y = work.call()  # the first call loads pools, caches and code, which are not the call's memory
    work.sync()
    if case.mode in ("forward", "train"):  # values are verified at a small n; at this n, check what can be checked
        y = check_output(y, work.x, case.d_model, output_dtype(work.layer, case.dtype))
        check_finite(y, counted(work.layer, case))
    del y
    work.forget()
    traced, operations = allocator_peak(work.call, case.device)
    work.forget()
    resident = resident_peak(work.call) if case.device == "cpu" else None
    work.forget()
    weights = [*work.layer.parameters(), *work.layer.buffers()]
    leaves = [*work.inputs, *work.constants, *weights]
    unknown: list[str] = []
    saved: int | None = 0
    if work.gradient is not None:
        saved = _told(lambda: saved_bytes(work.layer, work.forward, leaves), "saved_bytes", unknown)
    work.forget()
    seen = _told(lambda: observe(work), "flops, ops, depth, min_bytes, output_bytes, backend_fallback", unknown)
    inputs = _inputs(case, work)
    facts = _watched(seen, unknown)
    partly = _outside_torch(seen, resident, traced, case.threads)
    unknown += partly
    return {
        **facts,
        **_claimed(case),
        "min_bytes": None
        if facts["min_bytes"] is None
        else facts["min_bytes"] + _bytes([*weights, *_moved(case, work)]),
        "weights_bytes": _bytes(weights),
        "inputs_bytes": _bytes(inputs),
        **_peak(case, None if partly else traced, saved),
        "peak_resident_bytes": resident,
        "peak_traced_bytes": traced,
        "backend": backend(operations),
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


def _moved(case: Case, work: Workload) -> list[torch.Tensor]:
    """Return the inputs that every call reads.

    In decoding, the token and its caches and states are observed as they are read, so none is listed.
    """
    return [] if case.mode == "decode" else work.inputs


def _inputs(case: Case, work: Workload) -> list[torch.Tensor]:
    """Return the tensors that exist before the call and are not weights.

    In decoding, only the last token counts as input.
    """
    given = [work.x[:, -1].clone()] if case.mode == "decode" else work.inputs
    gradient = [work.gradient] if work.gradient is not None else []
    return [*given, *gradient, *work.constants]


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the size of the tensors' storages, each counted once.

    Tied weights and expanded buffers therefore count only for the memory that they occupy.
    """
    storages = (tensor.untyped_storage() for tensor in tensors)
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _told(take: Callable[[], _Fact], what: str, unknown: list[str]) -> _Fact | None:
    """Return `take()`, or None if the layer fails under observation; `unknown` then gets one more line."""
    try:
        return take()
    except (UsageError, torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:
        # The layer has run before, so only its observation fails. All other facts remain valid.
        line = " ".join(str(error).split())[:200]
        unknown.append(f"{what}: the layer does not run under watch: {type(error).__name__}: {line}")
        return None


def _claimed(case: Case) -> dict[str, Any]:
    """Return the layer's claims, and the FLOPs from its own formula, which holds for one sequence.

    Raises UsageError for an unparsable claim.
    """
    own = catalog.is_foreign(case.impl)
    of_it = claims.of_class(catalog.load_class(case.impl)) if own else claims.of_impl(case.impl)
    formula = claims.work_of(of_it, case.mode)
    # With a source, the work depends on two lengths, but claims know only one.
    formula = None if case.source_len else formula
    work = case.batch_size * formula(case.seq_len, case.d_model, case.num_heads) if formula else None
    stated = {name: str(claim) for name, claim in of_it.items()}
    return {"flops_claimed": work, "claims": dumps(stated, ensure_ascii=False) if own and stated else None}


def _watched(seen: Observation | None, unknown: list[str]) -> dict[str, Any]:
    """Return the facts of the observed call, with `min_bytes` still without weights and inputs.

    Reasons go to `unknown`.
    """
    if seen is None:
        return dict.fromkeys(_WATCHED) | {"flops_unknown": []}
    facts = _as_facts(seen)
    unknown += [f"flops: {name} has no formula; the layer's `kernels` may give one" for name in seen.flops_unknown]
    undeclared = "depth: {} declares no depth in the layer's `kernels`, and is counted as one operation"
    unknown += [undeclared.format(name) for name in seen.depth_undeclared]
    if graphs():
        unknown.append("ops, depth, min_bytes: the layer is compiled, and runs uncompiled while it is watched")
        facts |= dict.fromkeys(("ops", "depth", "depth_declared", "fused_depth_declared", "min_bytes"))
    elif triton_kernels() and not seen.has_own_operators:
        unknown.append("flops, ops, depth, min_bytes: a Triton kernel is called past torch's dispatcher, and not seen")
        facts |= _unseen(seen)
    elif seen.past_torch:
        unknown.append(
            "flops, ops, depth, min_bytes: a part of its result is of no operation that torch dispatches: of a kernel "
            "bound to Python by hand, of numpy, or of an earlier call"
        )
        facts |= _unseen(seen)
    return facts


def _unseen(seen: Observation) -> dict[str, Any]:
    """Return the facts of a call that did more than was observed."""
    return dict.fromkeys(_WATCHED) | {"flops_unknown": [], "output_bytes": seen.output_bytes}


def _as_facts(seen: Observation) -> dict[str, Any]:
    return {
        "flops": seen.work.flops if seen.work else None,
        "flops_full": seen.work.full if seen.work else None,
        "flops_unknown": seen.flops_unknown,
        "ops": seen.ops,
        "depth": seen.depth,
        "depth_declared": seen.depth_declared,
        "fused_depth_declared": seen.depth_declared > 0,
        "min_bytes": seen.materialised_bytes + seen.output_bytes,
        "output_bytes": seen.output_bytes,
        "backend_fallback": seen.fallback,
    }


_WATCHED = (
    "flops",
    "flops_full",
    "flops_unknown",
    "ops",
    "depth",
    "depth_declared",
    "fused_depth_declared",
    "min_bytes",
    "output_bytes",
    "backend_fallback",
)
