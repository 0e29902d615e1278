"""What the tests of the ladder share: layers of the registry by name, and what each can be asked for."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
import torch

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.trial.layer_protocol import unsupported_reason
from harness.core.trial.workload import build_layer
from impls.registry import IMPLS
from impls.sdpa.entries import UNEQUAL_LENGTHS

# Compiling takes seconds each: the compiled layers have tests of their own.
EAGER = [name for name, impl in IMPLS.items() if not impl.compiled]
_AROUND_A_LAYER = ("encoder", "decoder", "encoder6")
# Of its attention a block knows the masks, the source and the steps that it takes, and no more: one of each kind.
BLOCK_OF_EACH_KIND = (
    "encoder.naive",
    "encoder.fused",  # causal without a mask tensor
    "encoder.window",  # prepares a layout of its own
    "encoder.linear.chunked",  # causal by nature
    "decoder.fused",
    "decoder.gqa",  # a cache of another width
    "decoder.module",  # has no steps
    "decoder.linear.parallel",  # decodes from a state, the source's too
    "decoder.window",  # another looks over the source
    "decoder.linear.recurrent",
    "encoder6.fused",
)


def asked(name: str, n: int, d: int, h: int, **more: Any) -> tuple[Case, str | None]:
    """The case, of one head where the layer has none, and why the layer cannot be asked for it; None if it can."""
    case = replace(Case(name, n, d, h if IMPLS[name].has_heads else 1), **more)
    return case, layer_lookup.indivisible_size(case, IMPLS[name].has_heads) or unsupported_reason(
        layer_lookup.load_class(name), case
    )


def case_of(name: str, n: int, d: int, h: int, **more: Any) -> Case:
    """The case, of one head where the layer has none. Skips, with the reason, what the layer cannot be asked for."""
    case, reason = asked(name, n, d, h, **more)
    if reason:
        pytest.skip(reason)
    return case


def can(name: str, **more: Any) -> bool:
    """Whether the layer can be asked for such a case."""
    return asked(name, 40, 48, 4, **more)[1] is None


# Those that run on any CPU; the others need a GPU, or somebody's package.
# Layers of other packages, where they are installed, have tests of their own.
HERE = [name for name in EAGER if can(name) and not IMPLS[name].package]
BLOCKS = [name for name in HERE if IMPLS[name].family in _AROUND_A_LAYER]
# They take q, k, v and lengths, and have tests of their own: sdpa/test_unequal_lengths.py.
FUNCTIONS = [impl.name for impl in UNEQUAL_LENGTHS]
LAYERS = [name for name in HERE if name not in (*BLOCKS, *FUNCTIONS)]
# Every layer, and a block of each kind: their mathematics are tested mask by mask.
VARIED = [*LAYERS, *BLOCK_OF_EACH_KIND]
OTHER_BLOCKS = [name for name in BLOCKS if name not in VARIED]


def cells(names: Iterable[str], settings: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Parameters `name, setting` of each layer and each of the settings that it can be asked for."""
    return [
        pytest.param(name, dict(setting), id=f"{name}-{label}")
        for name in names
        for label, setting in settings.items()
        if can(name, **setting)
    ]


def make(case: Case) -> torch.nn.Module:
    """The layer in float64, its weights those of seed 0."""
    torch.manual_seed(0)
    return build_layer(layer_lookup.load_class(case.impl), case, **layer_lookup.build_options(case.impl)).double()


def make_reference(case: Case) -> torch.nn.Module:
    """The reference in float64."""
    reference = layer_lookup.load_reference(case.impl)
    assert reference is not None
    return build_layer(reference, case, **layer_lookup.reference_options(case.impl)).double()
