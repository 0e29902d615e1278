"""Grouped-query attention: several heads of queries to one of keys and values."""

from typing import Any

import pytest
import torch
from attention.watch import watched

from harness.core.model.sweep_axes import Case
from impls.attention import fused
from impls.attention.fused import FusedAttention, GroupedQueryAttention
from impls.attention.plain import PackedAttention

D, H, HEAD_DIM = 32, 8, 4


def as_multi_head(layer: GroupedQueryAttention) -> PackedAttention:
    """Multi-head attention with the key and the value of a group written out for each of its queries."""
    group = H // layer.num_kv_heads
    state = layer.state_dict()
    for name in ("in_proj_weight", "in_proj_bias"):
        q, k, v = state[name].split([D, D // group, D // group])
        k, v = (t.unflatten(0, (-1, HEAD_DIM)).repeat_interleave(group, dim=0).flatten(0, 1) for t in (k, v))
        state[name] = torch.cat([q, k, v])
    packed = PackedAttention(D, H)
    packed.load_state_dict(state)
    return packed


@pytest.mark.parametrize("layer_class", [FusedAttention, GroupedQueryAttention])
@pytest.mark.parametrize("num_kv_heads", [1, 2, 4, 8])
def test_it_is_multi_head_attention_whose_groups_have_one_key_and_value(layer_class: Any, num_kv_heads: int) -> None:
    layer = layer_class(D, H, num_kv_heads)
    packed = as_multi_head(layer)
    x, source = torch.randn(2, 9, D), torch.randn(2, 5, D)
    causal = torch.ones(9, 9, dtype=torch.bool).tril()[None, None]
    real = torch.tensor([[True] * 9, [True] * 4 + [False] * 5])[:, None, None]
    torch.testing.assert_close(layer(x), packed(x))
    torch.testing.assert_close(layer(x, is_causal=True), packed(x, causal))
    torch.testing.assert_close(layer(x, real), packed(x, real))
    torch.testing.assert_close(layer(x, source=source), packed(x, source=source))
    torch.testing.assert_close(layer.attention_weights(x, causal), packed.attention_weights(x, causal))


def test_with_all_key_value_heads_it_loads_the_weights_of_multi_head_attention() -> None:
    layer, fused = GroupedQueryAttention(D, H, num_kv_heads=H), FusedAttention(D, H)
    layer.load_state_dict(fused.state_dict())
    x = torch.randn(2, 9, D)
    torch.testing.assert_close(layer(x), fused(x))


def test_its_cache_is_a_quarter() -> None:
    of_all, of_groups = (each(D, H).start(2, 100) for each in (FusedAttention, GroupedQueryAttention))
    assert 4 * of_groups.keys.numel() == of_all.keys.numel()
    assert 4 * of_groups.values.numel() == of_all.values.numel()
    source = torch.randn(2, 7, D)
    assert GroupedQueryAttention(D, H).start(2, 100, source=source).keys.shape == (2, H // 4, 7, HEAD_DIM)


@pytest.mark.parametrize("trains", [False, True])
def test_on_a_kernel_without_groups_keys_are_repeated_and_math_is_not_taken(
    trains: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = torch._fused_sdp_choice

    def without_groups(*args: Any, enable_gqa: bool = False) -> int:
        return fused.MATH[0] if enable_gqa else choose(*args)

    layer, x = GroupedQueryAttention(D, H), torch.randn(2, 9, D)
    expected = layer(x, is_causal=True)
    monkeypatch.setattr(torch, "_fused_sdp_choice", without_groups)
    with torch.set_grad_enabled(trains):
        torch.testing.assert_close(layer(x, is_causal=True), expected)
        shapes = watched(lambda: layer(x, is_causal=True)).shapes
    assert shapes["aten::_scaled_dot_product_flash_attention_for_cpu"] == 3 * [(2, H, 9, HEAD_DIM)]


def test_heads_that_cannot_be_grouped_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="num_heads=6 is not divisible by 4"):
        GroupedQueryAttention(12, 6)
    with pytest.raises(ValueError, match="num_heads=8 is not divisible by num_kv_heads=3"):
        FusedAttention(D, H, num_kv_heads=3)
    said = GroupedQueryAttention.supports(Case("attention.gqa", 8, 12, 6))
    assert said is not None
    assert "num_heads=6" in said
    assert GroupedQueryAttention.supports(Case("attention.gqa", 8, 16, 8)) is None
    assert GroupedQueryAttention.supports(Case("attention.gqa", 8, 12, 6, num_kv_heads=2)) is None
