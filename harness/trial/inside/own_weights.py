"""Whether a layer's weights are drawn from a seed or are its own, for example learned weights that it loads."""

import torch
from torch import nn

from harness import catalog
from harness.case import Case
from harness.trial.build import build_layer


def has_own_weights(layer: nn.Module, case: Case, seed: int) -> bool:
    """Return True if another seed gives the same weights as `seed`. A layer without weights has none of its own."""
    torch.manual_seed(seed + 1)
    other = build_layer(catalog.load_class(case.impl), case, **catalog.build_options(case.impl)).state_dict()
    mine = layer.state_dict()
    return bool(mine) and all(torch.equal(value.to(other[name]), other[name]) for name, value in mine.items())
