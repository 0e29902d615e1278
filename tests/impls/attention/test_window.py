"""Restricted attention: what is within reach, and nothing else."""

import pytest
import torch
from torch import Tensor

from harness.core.model.sweep_axes import Case
from harness.core.trial.call_memory import allocator_peak
from harness.core.trial.workload import build
from impls.attention.plain import PackedAttention
from impls.attention.window import WindowAttention

LENGTHS = [1, 3, 4, 5, 8, 11, 30]
REACH = 4


def layers(reach: int = REACH) -> tuple[WindowAttention, PackedAttention]:
    layer, packed = WindowAttention(8, 2, reach).double(), PackedAttention(8, 2).double()
    packed.load_state_dict(layer.state_dict())
    return layer, packed


def band(n: int, reach: int = REACH) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).tril(reach).triu(-reach)[None, None]


def real(n: int) -> Tensor:
    """(3, 1, 1, n): a third, two thirds and all of the tokens, one at least."""
    return (torch.arange(n) < torch.tensor([1 + n // 3, 1 + 2 * n // 3, n])[:, None])[:, None, None]


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("reach", [1, 4, 7])
def test_it_is_attention_under_a_band(n: int, reach: int) -> None:
    layer, packed = layers(reach)
    x = torch.randn(2, n, 8, dtype=torch.float64)
    torch.testing.assert_close(layer(x), packed(x, band(n, reach)))
    torch.testing.assert_close(layer.attention_weights(x), packed.attention_weights(x, band(n, reach)))


@pytest.mark.parametrize("n", LENGTHS)
def test_under_a_causal_mask_it_is_the_lower_half_of_the_band(n: int) -> None:
    layer, packed = layers()
    x = torch.randn(2, n, 8, dtype=torch.float64)
    torch.testing.assert_close(layer(x, is_causal=True), packed(x, band(n).tril()))
    weights = layer.attention_weights(x, torch.ones(n, n, dtype=torch.bool).tril())
    torch.testing.assert_close(weights, packed.attention_weights(x, band(n).tril()))


@pytest.mark.parametrize("n", LENGTHS)
def test_padding_is_not_looked_at(n: int) -> None:
    layer, packed = layers()
    x = torch.randn(3, n, 8, dtype=torch.float64)
    seen = (real(n) & band(n)) | torch.eye(n, dtype=torch.bool)
    torch.testing.assert_close(layer(x, real(n)), packed(x, seen))


def test_a_mask_of_pairs_and_heads_is_cut_to_the_band() -> None:
    layer, packed = layers()
    x, mask = torch.randn(3, 11, 8, dtype=torch.float64), torch.rand(3, 2, 11, 11) < 0.5
    mask |= torch.eye(11, dtype=torch.bool)
    torch.testing.assert_close(layer(x, mask), packed(x, mask & band(11)))


@pytest.mark.parametrize("n", [3, 8, 11])
def test_gradients_are_those_of_attention_under_the_band(n: int) -> None:
    layer, packed = layers()
    x = torch.randn(3, n, 8, dtype=torch.float64, requires_grad=True)
    seen = (real(n) & band(n)) | torch.eye(n, dtype=torch.bool)
    given = torch.randn(3, n, 8, dtype=torch.float64)
    got = torch.autograd.grad(layer(x, real(n)), (x, *layer.parameters()), given)
    wanted = torch.autograd.grad(packed(x, seen), (x, *packed.parameters()), given)
    torch.testing.assert_close(got, wanted)


def test_padding_out_of_reach_of_all_that_is_real_is_no_trouble() -> None:
    layer, _ = layers()
    x = torch.randn(1, 30, 8, dtype=torch.float64, requires_grad=True)
    y = layer(x, (torch.arange(30) < 2)[None, None, None])
    assert y.isfinite().all()
    (gradient,) = torch.autograd.grad(y[:, :2].sum(), x)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("is_causal", [False, True])
def test_what_is_out_of_reach_changes_nothing_and_what_is_in_reach_does(is_causal: bool) -> None:
    layer, _ = layers()
    x = torch.randn(1, 30, 8, dtype=torch.float64)
    before = layer(x, is_causal=is_causal)
    x[:, 13] += 1.0
    changed = (layer(x, is_causal=is_causal) != before).any(-1)[0].nonzero().flatten().tolist()
    assert changed == list(range(13 if is_causal else 13 - REACH, 13 + REACH + 1))


def test_the_mask_is_made_once_for_a_length() -> None:
    layer, _ = layers()
    x = torch.randn(2, 11, 8, dtype=torch.float64)
    for said in ({}, {"is_causal": True}):
        torch.testing.assert_close(layer(x, **layer.prepare(x, **said)), layer(x, **said))


@pytest.mark.parametrize("mode", ["forward", "train"])
def test_memory_grows_with_n_and_not_with_its_square(mode: str) -> None:
    peaks = []
    for n in (256, 512):
        torch.set_grad_enabled(True)
        peaks.append(allocator_peak(build(Case("attention.window", n, 16, 1, mode=mode), seed=0).call, "cpu")[0])
    assert peaks[1] <= 2 * peaks[0]
    assert peaks[1] < 512**2 * 4  # bytes of n × n scores


def test_decoding_goes_on_after_the_ring_is_full_and_takes_no_more_memory() -> None:
    layer, _ = layers()
    x = torch.randn(2, 17, 8, dtype=torch.float64)
    cache = layer.start(2, 17)
    assert cache.keys.shape == (2, 2, REACH + 1, 4)
    outputs = []
    for x_t in x.unbind(1):
        y_t, cache = layer.step(x_t, cache)
        outputs.append(y_t)
    torch.testing.assert_close(torch.stack(outputs, dim=1), layer(x, is_causal=True))


@pytest.mark.parametrize("ahead", [1, 2, REACH, REACH + 1, REACH + 2, 3 * REACH])
@pytest.mark.parametrize("then", [1, 3, 2 * REACH])
def test_tokens_put_in_at_once_leave_what_steps_leave(ahead: int, then: int) -> None:
    layer, _ = layers()
    x = torch.randn(2, ahead + then + 1, 8, dtype=torch.float64)
    cache = layer.prefill(x[:, :ahead], layer.start(2, 99))
    cache = layer.prefill(x[:, ahead:-1], cache)
    y, _ = layer.step(x[:, -1], cache)
    torch.testing.assert_close(y, layer(x, is_causal=True)[:, -1])
