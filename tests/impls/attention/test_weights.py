"""The weights that a layer returns are those that it computes with."""

import pytest
import torch

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.trial.workload import build_layer
from impls.attention.entries import ATTENTION
from impls.attention.plain import Attention
from impls.attention.window import WindowAttention

SHOWING = [impl.name for impl in ATTENTION]
# nn.MultiheadAttention does not tell its values, and two kernels run on CUDA only.
NOT_TELLING = ("attention.module", "attention.module.weights", "attention.fused.efficient", "attention.fused.cudnn")
TELLING = [name for name in SHOWING if name not in NOT_TELLING]


def make(name: str) -> torch.nn.Module:
    options = layer_lookup.build_options(name)
    return build_layer(layer_lookup.load_class(name), Case(name, 40, 16, 4), **options).double()


@pytest.mark.parametrize("name", SHOWING)
def test_rows_sum_to_1_and_what_is_masked_is_0(name: str) -> None:
    layer, x = make(name), torch.randn(2, 40, 16, dtype=torch.float64)
    causal = torch.ones(1, 1, 40, 40, dtype=torch.bool).tril()
    for mask in (None, causal):
        weights = layer.attention_weights(x, mask)  # type: ignore[operator]
        assert weights.shape == (2, 1 if name == "attention.single" else 4, 40, 40)
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
        assert mask is None or not weights.masked_select(~mask).any()


@pytest.mark.parametrize("name", TELLING)
def test_with_the_values_they_make_the_output(name: str) -> None:
    layer, x = make(name), torch.randn(2, 40, 16, dtype=torch.float64)
    assert isinstance(layer, Attention | WindowAttention)
    _, _, values = layer.project(x)
    weights = layer.attention_weights(x)
    values = values.repeat_interleave(weights.shape[1] // values.shape[1], dim=1)
    torch.testing.assert_close(layer.merge(weights @ values), layer(x))
