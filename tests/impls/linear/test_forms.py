"""The three forms of linear attention are one layer, and it is the paper's."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import elu, linear

from impls.attention.linear import (
    CausalLinearAttentionReference,
    ChunkedLinearAttention,
    LinearAttention,
    LinearAttentionReference,
    ParallelLinearAttention,
    RecurrentLinearAttention,
)

D, H = 12, 3
CAUSAL = (RecurrentLinearAttention, ChunkedLinearAttention)
FORMS = (ParallelLinearAttention, *CAUSAL)


def form(layer_class: Any, d: int = D, h: int = H, **options: Any) -> Any:
    torch.manual_seed(0)
    return layer_class(d_model=d, num_heads=h, **options).double()


def input_of(n: int, d: int = D) -> Tensor:
    return torch.randn(2, n, d, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def equation_4(layer: LinearAttention, x: Tensor, seen: Tensor) -> Tensor:
    """Of the paper, token by token and head by head: similarity of features, weighted mean, over the j seen by i."""
    q, k, v = linear(x, layer.in_proj_weight, layer.in_proj_bias).chunk(3, dim=-1)
    out = torch.zeros_like(x)
    for b in range(x.shape[0]):
        for i in range(x.shape[1]):
            for e in torch.arange(x.shape[2]).chunk(layer.num_heads):
                pairs = [
                    (torch.dot(elu(q[b, i, e]) + 1, elu(k[b, j, e]) + 1), v[b, j, e]) for j in seen[i].nonzero()[:, 0]
                ]
                out[b, i, e] = sum(s * v_j for s, v_j in pairs) / sum(s for s, _ in pairs)
    return layer.out_proj(out)


def test_with_all_tokens_seen_it_is_equation_4() -> None:
    layer, x = form(ParallelLinearAttention), input_of(5)
    torch.testing.assert_close(layer(x), equation_4(layer, x, torch.ones(5, 5)))


@pytest.mark.parametrize("layer_class", [*CAUSAL, CausalLinearAttentionReference])
def test_with_earlier_tokens_seen_it_is_equation_4(layer_class: Any) -> None:
    layer, x = form(layer_class), input_of(5)
    torch.testing.assert_close(layer(x), equation_4(layer, x, torch.ones(5, 5).tril()))


def test_the_reference_is_equation_4_under_any_mask() -> None:
    layer, x = form(LinearAttentionReference), input_of(5)
    seen = torch.tensor([[1, 0, 0, 0, 1], [0, 1, 1, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0], [1, 0, 1, 0, 1]])
    torch.testing.assert_close(layer(x, attn_mask=seen.bool()[None, None]), equation_4(layer, x, seen))


@pytest.mark.parametrize("n", [1, 63, 64, 65, 130])
@pytest.mark.parametrize("layer_class", CAUSAL)
def test_a_causal_form_is_the_masked_product(layer_class: Any, n: int) -> None:
    x = input_of(n)
    torch.testing.assert_close(form(layer_class)(x), form(ParallelLinearAttention)(x, is_causal=True))


@pytest.mark.parametrize("chunk", [1, 2, 5, 16, 40, 1000])
def test_the_size_of_the_chunks_changes_nothing(chunk: int) -> None:
    x = input_of(40)
    torch.testing.assert_close(form(ChunkedLinearAttention, chunk=chunk)(x), form(ChunkedLinearAttention)(x))


def test_a_chunk_of_no_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="chunk=0 is no number of tokens"):
        form(ChunkedLinearAttention, chunk=0)


def test_a_mask_of_the_callers_own_hides_what_it_says() -> None:
    layer, x = form(ParallelLinearAttention), input_of(9)
    causal = torch.ones(1, 1, 9, 9, dtype=torch.bool).tril()
    keys = (torch.arange(9) < 4)[None, None, None]
    torch.testing.assert_close(layer(x, attn_mask=causal), layer(x, is_causal=True))
    torch.testing.assert_close(layer(x, attn_mask=keys), layer(x, attn_mask=keys.expand(2, 1, 9, 9)))
    torch.testing.assert_close(
        layer(x, attn_mask=keys, is_causal=True), layer(x, attn_mask=causal & keys.expand(2, 1, 9, 9))
    )


@pytest.mark.parametrize("layer_class", FORMS)
def test_its_weights_sum_to_one_and_give_its_output(layer_class: Any) -> None:
    layer, x = form(layer_class), input_of(9)
    weights = layer.attention_weights(x)
    assert weights.shape == (2, H, 9, 9)
    assert (weights >= 0).all()
    assert (weights.triu(1) == 0).all() == layer.causal
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, H, 9, dtype=torch.float64))
    _, _, v = layer.project(x)
    torch.testing.assert_close(layer.merge(weights @ v), layer(x))


def test_its_weights_under_a_mask_are_those_of_the_masked_layer() -> None:
    layer, x = form(ParallelLinearAttention), input_of(9)
    seen = (torch.arange(9) < 4)[None, None, None]
    _, _, v = layer.project(x)
    torch.testing.assert_close(layer.merge(layer.attention_weights(x, seen) @ v), layer(x, attn_mask=seen))


@pytest.mark.parametrize("layer_class", FORMS)
@pytest.mark.parametrize("is_causal", [False, True])
def test_sums_beyond_the_range_of_float16_do_no_harm(layer_class: Any, is_causal: bool) -> None:
    layer = form(layer_class, d=8, h=2)
    with torch.no_grad():
        layer.in_proj_bias[8:16] += 100  # features of 100: their sum over 1500 tokens is 150,000
        layer.in_proj_bias[16:] += 50  # values with a mean: sums of products, too
    x, mask = input_of(1500, 8), {"is_causal": True} if is_causal and not layer.causal else {}
    with torch.no_grad():
        expected = layer(x, **mask)
        got = layer.half()(x.half(), **mask)
    torch.testing.assert_close(got.double(), expected, rtol=0.01, atol=0.2)
