"""Whether a layer's weights are those that a seed draws, or its own, as of one that loads what it has learned."""

import torch
from torch import nn

from harness import catalog
from harness.case import Case
from harness.trial.build import build_layer


def has_own_weights(layer: nn.Module, case: Case, seed: int) -> bool:
    """True if the layer, built with `seed`, comes out the same with another. Without weights it has none of its own."""
    torch.manual_seed(seed + 1)
    other = build_layer(catalog.load_class(case.impl), case, **catalog.build_options(case.impl)).state_dict()
    mine = layer.state_dict()
    return bool(mine) and all(torch.equal(value.to(other[name]), other[name]) for name, value in mine.items())
