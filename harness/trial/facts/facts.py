"""All facts of a case, in the trial that takes nothing else."""

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
    """What one call of the case computes, moves and allocates, and which kernel it runs. The same each time.

    | key | is |
    | --- | --- |
    | `flops`, `flops_full` | work, a multiply-add being 2: what a causal mask leaves of fused kernels, and all of it |
    | `flops_claimed` | what the layer claims of it, None where it claims nothing |
    | `claims` | what somebody's own layer claims, as JSON; None of ours, whose claims are in the registry |
    | `flops_unknown` | operators without a formula; `flops` is None where there are any |
    | `ops`, `depth` | dispatched operations, views included; those on the longest chain |
    | `depth_declared`, `fused_depth_declared` | how many of the chain opaque kernels declare; whether they do |
    | `min_bytes` | the least traffic: weights, inputs and outputs once, what is materialised written and read once |
    | `weights_bytes` | parameters and buffers |
    | `inputs_bytes` | inputs, masks, caches and states; in `train` and `backward` the output's gradient too |
    | `output_bytes` | in `train` and `backward`, of the other gradients too |
    | `peak_bytes` | the peak beyond weights and inputs, outputs included; None if torch allocated only a part of it |
    | `saved_bytes`, `transient_bytes` | of that, what the forward pass leaves to the backward pass, and the rest; in
      `backward` the former was there before, and is not in the peak |
    | `peak_resident_bytes` | the kernel's view of the peak; None on a GPU |
    | `peak_traced_bytes` | the peak of what torch's allocator handed out, whoever else allocated |
    | `backend`, `backend_fallback` | the kernel that ran; one sentence if a faster one was allowed, or None |
    | `facts_unknown` | one line for each reason why a key above is None |

    Each kind of fact has a call of its own, so that taking one does not disturb another.
    """
    return_freed_blocks()
    work = build(case, seed)
    y = work.call()  # pools, caches and code are loaded by the first call, and are not its memory
    work.sync()
    if case.mode in ("forward", "train"):  # values are verified at a small n; what can be seen at this one, is
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
    """Why the peak that torch has traced is a part of the peak only; empty where it is all of it."""
    if seen is not None and seen.past_torch and seen.past_allocator:
        return ["peak_bytes: memory that torch has not allocated is a part of it, as numpy's is"]
    if exceeds_traced(resident, traced, threads, seen.ops if seen is not None else 0):
        return [
            "peak_bytes: the process grew by far more memory than torch allocated (`peak_resident_bytes`, "
            "`peak_traced_bytes`): the layer allocates outside torch"
        ]
    return []


def _peak(case: Case, peak: int | None, saved: int | None) -> dict[str, int | None]:
    """The peak and its parts; None of what is not known."""
    if peak is None:
        return dict.fromkeys(("peak_bytes", "saved_bytes", "transient_bytes"))
    transient = peak if case.mode == "backward" else None if saved is None else peak - saved
    return {"peak_bytes": peak, "saved_bytes": saved, "transient_bytes": transient}


def _moved(case: Case, work: Workload) -> list[torch.Tensor]:
    """Inputs that every call reads; the token that is decoded is seen to be read, as caches and states are."""
    return [] if case.mode == "decode" else work.inputs


def _inputs(case: Case, work: Workload) -> list[torch.Tensor]:
    """What is there before the call and is no weight: of a token to be decoded, the token and not those before it."""
    given = [work.x[:, -1].clone()] if case.mode == "decode" else work.inputs
    gradient = [work.gradient] if work.gradient is not None else []
    return [*given, *gradient, *work.constants]


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Of their storages, each once: tied weights and expanded buffers are no larger than what they lie in."""
    storages = (tensor.untyped_storage() for tensor in tensors)
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def _told(take: Callable[[], _Fact], what: str, unknown: list[str]) -> _Fact | None:
    """What `take` gives; None, and one line more in `unknown`, if the layer does not run under watch."""
    try:
        return take()
    except (UsageError, torch.OutOfMemoryError, MemoryError):
        raise
    except Exception as error:
        # Until here the layer has run: what fails is the watching of it, and the rest of the facts stands.
        line = " ".join(str(error).split())[:200]
        unknown.append(f"{what}: the layer does not run under watch: {type(error).__name__}: {line}")
        return None


def _claimed(case: Case) -> dict[str, Any]:
    """What the layer claims, and FLOPs by its own formula, which is of one sequence.

    Raises UsageError for a claim that cannot be read.
    """
    own = catalog.is_foreign(case.impl)
    of_it = claims.of_class(catalog.load_class(case.impl)) if own else claims.of_impl(case.impl)
    formula = claims.work_of(of_it, case.mode)
    # With a source, work is of two lengths: claims know one.
    formula = None if case.source_len else formula
    work = case.batch_size * formula(case.seq_len, case.d_model, case.num_heads) if formula else None
    stated = {name: str(claim) for name, claim in of_it.items()}
    return {"flops_claimed": work, "claims": dumps(stated, ensure_ascii=False) if own and stated else None}


def _watched(seen: Observation | None, unknown: list[str]) -> dict[str, Any]:
    """The facts of the watched call, `min_bytes` still without weights and inputs; reasons go to `unknown`."""
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
    """Of a call that did more than was seen."""
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
