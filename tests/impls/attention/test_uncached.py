"""Decoding without a cache: token by token the same as with one, and at the cost of a whole pass each."""

from inspect import signature

import pytest
import torch

from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import trace_call
from harness.core.trial.workload import Unsupported, build
from impls.attention.fused import FusedAttention, UncachedAttention
from impls.registry import IMPLS

B, N, D, H = 2, 9, 12, 3


@pytest.fixture
def pair() -> tuple[UncachedAttention, FusedAttention]:
    """The same weights, without and with a cache."""
    uncached, cached = UncachedAttention(D, H), FusedAttention(D, H)
    uncached.load_state_dict(cached.state_dict())
    return uncached, cached


@pytest.mark.parametrize("taken_in", [0, 1, 6])
@torch.no_grad()
def test_wherever_it_takes_up_a_text_every_token_is_what_it_is_with_a_cache(
    pair: tuple[UncachedAttention, FusedAttention], taken_in: int
) -> None:
    x = torch.randn(B, N, D)
    states = [layer.start(B, N) for layer in pair]
    if taken_in:
        states = [layer.prefill(x[:, :taken_in], state) for layer, state in zip(pair, states, strict=True)]
    for t in range(taken_in, N):
        (got, text), (wanted, cache) = (layer.step(x[:, t], state) for layer, state in zip(pair, states, strict=True))
        torch.testing.assert_close(got, wanted)
        states = [text, cache]


@torch.no_grad()
def test_what_was_written_before_may_be_continued_twice(pair: tuple[UncachedAttention, FusedAttention]) -> None:
    layer, x = pair[0], torch.randn(B, N, D)
    text = layer.prefill(x[:, :4], layer.start(B, N))
    first, _ = layer.step(x[:, 4], text)
    other, _ = layer.step(x[:, 5], text)
    again, _ = layer.step(x[:, 4], text)
    assert torch.equal(first, again)
    assert not torch.allclose(first, other)


def test_a_forward_pass_is_that_of_the_fused_layer() -> None:
    assert UncachedAttention.forward is FusedAttention.forward


@pytest.mark.parametrize("n", [1, 16, 40])
def test_a_token_costs_a_pass_over_all_tokens_so_far_of_which_the_mask_leaves_the_lower_half(n: int) -> None:
    work = trace_call(build(Case("attention.uncached", n, D, H, batch_size=B, mode="decode"), seed=0)).flops.work
    torch.set_grad_enabled(True)
    assert work is not None
    assert work.full == B * (8 * n * D**2 + 4 * n**2 * D)
    assert work.flops == B * (8 * n * D**2 + 2 * n * (n + 1) * D)


def test_it_decodes_over_its_own_text_alone() -> None:
    assert "source" in signature(UncachedAttention.forward).parameters
    with pytest.raises(Unsupported, match="its start takes no source"):
        build(Case("attention.uncached", N, D, H, mode="decode", kv_len=5), seed=0)


def test_there_is_no_block_around_it() -> None:
    assert [name for name in IMPLS if "uncached" in name] == ["attention.uncached"]
