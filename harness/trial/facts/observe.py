"""Observe one call of a layer: its FLOPs, operations, depth, traffic, and whether it fell back."""

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from harness.trial.build import Workload
from harness.trial.facts.depth import Depth
from harness.trial.facts.fallback import Fallback
from harness.trial.facts.flops import Flops
from harness.trial.facts.kernels import Work
from harness.trial.facts.observer import Observer
from harness.trial.facts.operations import tensors
from harness.trial.facts.storages import Storages
from harness.trial.facts.traffic import Traffic
from harness.trial.facts.written import Written


@dataclass(frozen=True)
class Observation:
    """Results of one observed call. Fields not listed here are as in `take_facts`.

    - `materialised_bytes`: the least traffic beyond weights, inputs and outputs.
    - `past_torch`: whether something that torch does not dispatch contributed to the result.
    - `past_allocator`: whether it did so in memory that is not torch's.
    """

    work: Work | None
    flops_unknown: list[str]
    depth_undeclared: list[str]
    ops: int
    depth: int
    depth_declared: int
    materialised_bytes: int
    output_bytes: int
    fallback: str | None
    has_own_operators: bool
    past_torch: bool
    past_allocator: bool


def observe(work: Workload) -> Observation:
    """Call the workload once under observation. Raises Unobservable, or whatever the layer raises under observation."""
    storages = Storages()
    flops = Flops(getattr(type(work.layer), "kernels", None))
    depth = Depth(flops.declared_depth)
    traffic = Traffic(storages)
    written, fallback = Written(storages), Fallback()
    observer = Observer(storages, (flops, depth, traffic, written, fallback))
    leaves = [*work.inputs, *work.layer.parameters(), *work.layer.buffers()]
    for leaf in leaves:
        storages.key(leaf)
    with _compiler_off():
        call = work.remake()  # for a backward pass, this makes a graph that is not compiled
        with observer:
            result = call()
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None]
    outputs = [*tensors(result), *gradients]
    given = [*leaves, *work.constants, *([] if work.gradient is None else [work.gradient])]
    return Observation(
        flops.work,
        flops.unknown,
        flops.undeclared,
        observer.ops,
        depth.length,
        depth.declared,
        traffic.bytes(leaves, outputs),
        sum(tensor.nbytes for tensor in outputs),
        fallback.reason,
        flops.has_own_operators,
        written.past_torch(given, outputs),
        written.somebody_elses,
    )


def _compiler_off() -> AbstractContextManager[Any]:
    """Run compiled code as it is written; otherwise the compiler would trace into the observer."""
    # If the warm-up call has not imported the compiler, nothing is compiled. Importing it would take 0.7 s.
    return torch.compiler.set_stance("force_eager") if "torch._dynamo" in sys.modules else nullcontext()
