"""`nn.MultiheadAttention` under our contract: its own results, its own masks, made before the call."""

from typing import Any

import pytest
import torch
from attention.watch import watched
from torch import Tensor, nn

from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import trace_call
from harness.core.trial.workload import build
from impls.attention.fused import ModuleAttention, ModuleAttentionWithWeights
from impls.attention.plain import PackedAttention

BOTH = pytest.mark.parametrize("layer_class", [ModuleAttention, ModuleAttentionWithWeights])
REAL = torch.arange(6) < torch.tensor([2, 6, 4])[:, None]  # (b, n)
FUTURE = torch.ones(6, 6, dtype=torch.bool).triu(1)
# The same masks for our layers and for the module, in whose masks True hides a token.
SAID: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "none": ({}, {}),
    "causal": ({"is_causal": True}, {"attn_mask": FUTURE}),
    "padding": ({"attn_mask": REAL[:, None, None]}, {"key_padding_mask": ~REAL}),
    "one mask": ({"attn_mask": ~FUTURE[None, None]}, {"attn_mask": FUTURE}),
}


def layers(layer_class: type[ModuleAttention], training: bool) -> tuple[ModuleAttention, nn.MultiheadAttention]:
    layer, theirs = layer_class(8, 2), nn.MultiheadAttention(8, 2, batch_first=True)
    theirs.load_state_dict(layer.state_dict())
    return layer.train(training), theirs.train(training)


@BOTH
@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("training", [False, True])
def test_it_gives_what_the_module_gives(layer_class: type[ModuleAttention], said: str, training: bool) -> None:
    layer, theirs = layers(layer_class, training)
    x = torch.randn(3, 6, 8)
    ours, masks = SAID[said]
    with torch.set_grad_enabled(training):
        expected: Tensor = theirs(x, x, x, need_weights=layer.need_weights, **masks)[0]
        torch.testing.assert_close(layer(x, **layer.prepare(x, **ours)), expected)
        torch.testing.assert_close(layer(x, **ours), expected)


@BOTH
def test_each_head_may_have_a_mask_of_its_own(layer_class: type[ModuleAttention]) -> None:
    layer, packed = layer_class(8, 2), PackedAttention(8, 2)
    packed.load_state_dict(layer.state_dict())
    x, mask = torch.randn(3, 6, 8), torch.stack([~FUTURE, FUTURE.t() | torch.eye(6, dtype=torch.bool)])[None]
    mask[:, 1, :, 0] = True
    torch.testing.assert_close(layer(x, mask), packed(x, mask))


@BOTH
def test_a_source_is_attended_to_and_its_padding_is_not(layer_class: type[ModuleAttention]) -> None:
    layer, packed = layer_class(8, 2), PackedAttention(8, 2)
    packed.load_state_dict(layer.state_dict())
    x, source, seen = torch.randn(3, 4, 8), torch.randn(3, 6, 8), REAL[:, None, None]
    torch.testing.assert_close(layer(x, source=source), packed(x, source=source))
    prepared = layer.prepare(x, attn_mask=seen, source=source)
    torch.testing.assert_close(layer(x, **prepared), packed(x, seen, source))


@BOTH
@pytest.mark.parametrize("said", ["causal", "padding"])
@pytest.mark.parametrize("trains", [False, True])
def test_no_mask_is_made_in_the_call(layer_class: type[ModuleAttention], said: str, trains: bool) -> None:
    layer, x = layer_class(8, 2).train(trains), torch.randn(3, 6, 8)
    prepared = layer.prepare(x, **SAID[said][0])
    with torch.set_grad_enabled(trains):
        assert not any("masked_fill" in name for name in watched(lambda: layer(x, **prepared)).names)


@pytest.mark.parametrize(
    ("layer_class", "largest"), [(ModuleAttention, 24 * 50), (ModuleAttentionWithWeights, 2 * 50 * 50)]
)
def test_only_where_weights_are_asked_for_are_scores_written_in_training(
    layer_class: type[ModuleAttention], largest: int
) -> None:
    layer = layer_class(8, 2)
    assert watched(lambda: layer(torch.randn(1, 50, 8))).largest == largest


def test_it_is_told_that_its_mask_is_causal_and_leaves_out_what_that_hides() -> None:
    work = trace_call(build(Case("attention.module", 50, 8, 2, mode="train", mask="causal"), seed=0)).flops.work
    assert work is not None
    assert work.flops < work.full


@BOTH
def test_its_weights_are_those_of_each_head(layer_class: type[ModuleAttention]) -> None:
    layer, packed = layer_class(8, 2), PackedAttention(8, 2)
    packed.load_state_dict(layer.state_dict())
    x = torch.randn(3, 6, 8)
    for mask in (None, ~FUTURE[None, None]):
        torch.testing.assert_close(layer.attention_weights(x, mask), packed.attention_weights(x, mask))
