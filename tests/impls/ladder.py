"""What the tests of the ladder share: a layer of the registry by name, and whether it can be asked for a case."""

from dataclasses import replace

import pytest
import torch

from harness import catalog
from harness.case import Case
from harness.trial.build import build_layer
from harness.trial.contract import refusal
from impls.registry import IMPLS

# Compiling takes seconds each: the compiled rungs have tests of their own.
EAGER = [name for name, impl in IMPLS.items() if not impl.compiled]


def case_of(name: str, n: int, d: int, h: int, **more: object) -> Case:
    """The case, of one head where the layer has none. Skips, with the reason, what the layer cannot be asked for."""
    case = Case(name, n, d, h if IMPLS[name].has_heads else 1)
    case = replace(case, **more)
    reason = catalog.unsupported_reason(case, IMPLS[name].has_heads) or refusal(catalog.load_class(name), case)
    if reason:
        pytest.skip(reason)
    return case


def make(case: Case) -> torch.nn.Module:
    """The layer in float64, its weights those of seed 0."""
    torch.manual_seed(0)
    return build_layer(catalog.load_class(case.impl), case, **catalog.build_options(case.impl)).double()


def make_reference(case: Case) -> torch.nn.Module:
    """The reference in float64."""
    reference = catalog.load_reference(case.impl)
    assert reference is not None
    return build_layer(reference, case, **catalog.reference_options(case.impl)).double()
