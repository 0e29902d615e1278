"""The loop over tokens: a backward pass that keeps no states, and decoding whose state does not grow."""

from typing import Any

import pytest
import torch

from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.after_call import saved_bytes
from harness.core.trial.workload import build
from impls.attention.entries import LINEAR
from impls.attention.linear import (
    ChunkedLinearAttention,
    ParallelLinearAttention,
    RecurrentLinearAttention,
    causal_product,
)
from impls.registry import IMPLS

FORMS = (ParallelLinearAttention, RecurrentLinearAttention, ChunkedLinearAttention)


def drawn(*shape: int, **options: Any) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape)), **options)


def test_it_is_the_product_written_out_and_so_are_its_gradients_of_either_order() -> None:
    q, k, v = (drawn(2, 5, 3).roll(i).requires_grad_() for i in range(3))
    torch.testing.assert_close(causal_product(q, k, v), (q @ k.transpose(1, 2)).tril() @ v)
    assert torch.autograd.gradcheck(causal_product, (q, k, v))
    assert torch.autograd.gradgradcheck(causal_product, (q, k, v))


@pytest.mark.parametrize("d", [16, 64])
def test_what_it_keeps_for_backward_is_a_few_words_a_token_and_no_states(
    monkeypatch: pytest.MonkeyPatch, d: int
) -> None:
    monkeypatch.setitem(IMPLS, "attention.linear.recurrent", LINEAR[1])
    n = 50
    work = build(Case("attention.linear.recurrent", n, d, 1, mode="train"), seed=0)
    saved = saved_bytes(work.forward, work.gradient, "cpu", work.forget)
    assert saved / (4 * n * d) < 10  # states would be d words each


@pytest.mark.parametrize("layer_class", FORMS)
def test_the_state_is_as_large_after_a_thousand_tokens_as_after_none(layer_class: Any) -> None:
    layer = layer_class(d_model=8, num_heads=2)
    empty = layer.start(3, 1000)
    full = layer.prefill(torch.randn(3, 1000, 8), empty)
    assert (
        [tensor.shape for tensor in full[:2]] == [tensor.shape for tensor in empty[:2]] == [(3, 2, 4, 4), (3, 2, 1, 4)]
    )


def test_in_bfloat16_the_state_still_counts_every_token() -> None:
    layer = ParallelLinearAttention(d_model=4, num_heads=1).bfloat16()
    with torch.no_grad():
        layer.in_proj_weight.zero_()
        layer.in_proj_bias.zero_()  # every feature is 1, and bfloat16 counts to 256
    state = layer.start(1, 1000)
    for x_t in torch.zeros(1000, 1, 4, dtype=torch.bfloat16):
        _, state = layer.step(x_t, state)
    assert state.z.flatten().tolist() == [1000.0] * 4


def test_prefilling_in_pieces_is_prefilling_at_once() -> None:
    layer = ChunkedLinearAttention(d_model=8, num_heads=2).double()
    x = drawn(2, 20, 8)
    whole = layer.prefill(x, layer.start(2, 20))
    pieces = layer.prefill(x[:, 7:], layer.prefill(x[:, :7], layer.start(2, 20)))
    torch.testing.assert_close(pieces, whole)
