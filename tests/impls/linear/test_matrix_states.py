"""Layers with a matrix state: chunks change nothing, many tokens lose nothing, and what each one is known for."""

from typing import Any

import pytest
import torch
from torch import Tensor

from impls.linear.gated_delta import ChunkedGatedDelta, RecurrentGatedDelta, delta_states, inverse
from impls.linear.matrix_state import Chunks, log_decays
from impls.linear.mlstm import ChunkedMLSTM, RecurrentMLSTM
from impls.linear.reference import GatedDeltaReference, MLSTMReference, RWKV7Reference, SSDReference
from impls.linear.rwkv7 import ChunkedRWKV7, RecurrentRWKV7
from impls.linear.ssd import ChunkedSSD, RecurrentSSD

D, H = 12, 3
PAIRS: list[tuple[Any, Any]] = [
    (RecurrentSSD, ChunkedSSD),
    (RecurrentGatedDelta, ChunkedGatedDelta),
    (RecurrentMLSTM, ChunkedMLSTM),
    (RecurrentRWKV7, ChunkedRWKV7),
]
REFERENCES: list[tuple[Any, Any]] = [
    (ChunkedSSD, SSDReference),
    (ChunkedGatedDelta, GatedDeltaReference),
    (ChunkedMLSTM, MLSTMReference),
    (ChunkedRWKV7, RWKV7Reference),
]
CHUNKED = [chunked for _, chunked in PAIRS]


def made(layer_class: Any, d: int = D, h: int = H, **options: Any) -> Any:
    torch.manual_seed(0)
    return layer_class(d_model=d, num_heads=h, **options).double()


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(len(shape)))


@pytest.mark.parametrize(("recurrent", "chunked"), PAIRS)
@pytest.mark.parametrize("chunk", [1, 3, 16, 40, 64])
def test_the_size_of_the_chunks_changes_nothing(recurrent: Any, chunked: Any, chunk: int) -> None:
    x = drawn(2, 40, D)
    torch.testing.assert_close(made(chunked, chunk=chunk)(x), made(recurrent)(x))


@pytest.mark.parametrize("layer_class", CHUNKED)
def test_a_text_may_be_prefilled_in_pieces_of_any_length(layer_class: Any) -> None:
    layer, x = made(layer_class, chunk=8), drawn(2, 21, D)
    whole = layer.prefill(x, layer.start(2, 21))
    pieces = layer.prefill(x[:, 13:], layer.prefill(x[:, :13], layer.start(2, 21)))
    after = layer.step(x[:, 0], whole)[0]
    torch.testing.assert_close(layer.step(x[:, 0], pieces)[0], after)


@pytest.mark.parametrize(("layer_class", "reference"), REFERENCES)
@pytest.mark.parametrize(("dtype", "limit"), [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)])
def test_over_many_tokens_no_more_is_lost_than_rounding(
    layer_class: Any, reference: Any, dtype: torch.dtype, limit: float
) -> None:
    layer, x = made(layer_class, d=32, h=2).to(dtype), drawn(1, 2048, 32).to(dtype)
    exact = made(reference, d=32, h=2)
    exact.load_state_dict({name: value.double() for name, value in layer.state_dict().items()})
    with torch.no_grad():
        expected, got = exact(x.double()), layer(x)
    assert ((got.double() - expected).norm() / expected.norm()).item() < limit


def test_a_fast_decay_costs_no_digit_of_the_pairs_beside_each_other() -> None:
    log_decay = torch.full((64, 1), -30.0)
    log_decay[-1] = -1e-3
    pair = log_decays(log_decay)[-1, -2]
    assert abs(pair.item() + 1e-3) < 1e-9  # two sums of about −1,900 in float32 would differ by multiples of 1e-4


@pytest.mark.parametrize("layer_class", CHUNKED)
def test_gates_at_their_limits_leave_numbers_that_are_finite(layer_class: Any) -> None:
    layer = made(layer_class).float()
    x = 1000 * drawn(1, 100, D).float()
    x.requires_grad_()
    y = layer(x)
    y.sum().backward()
    assert y.isfinite().all()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_the_delta_rule_overwrites_the_value_of_a_key() -> None:
    layer = made(RecurrentGatedDelta, d=4, h=1)
    one, two = (torch.tensor([[[value]]], dtype=torch.float64).expand(1, 1, 1, 4) for value in (1.0, 5.0))
    k = torch.nn.functional.normalize(torch.ones(1, 1, 1, 4, dtype=torch.float64), dim=-1)
    keeps, writes = torch.zeros(1, 1, 1, 1, dtype=torch.float64), torch.ones(1, 1, 1, 1, dtype=torch.float64)
    state = layer.start(1, 2)
    for v in (one, two):
        y, state = layer.update(state, k, k, v, keeps, writes)
        torch.testing.assert_close(y, v)


def test_the_output_of_mlstm_does_not_depend_on_what_its_memory_is_divided_by() -> None:
    layer, x = made(RecurrentMLSTM), drawn(1, 6, D)
    memory = layer.prefill(x, layer.start(1, 7))
    scaled = memory._replace(c=memory.c / torch.e**2, z=memory.z / torch.e**2, m=memory.m + 2)
    torch.testing.assert_close(layer.step(x[:, 0], scaled)[0], layer.step(x[:, 0], memory)[0])


def test_the_inverse_of_similar_keys_keeps_its_digits() -> None:
    a = torch.ones(1, 1, 1, 32, 32).tril(-1)  # powers of it reach 3e8
    torch.testing.assert_close(inverse(a, 0) @ (a + torch.eye(32)), torch.eye(32)[None, None, None])


@pytest.mark.parametrize("rest", [0, 2])
def test_the_loop_over_chunks_has_the_gradients_of_its_equations(rest: int) -> None:
    def passed(x: Tensor, w: Tensor, k: Tensor, decay: Tensor, added: Tensor, state: Tensor) -> tuple[Tensor, ...]:
        return delta_states(*(chunks.split(chunks.join(each)) for each in (x, w, k)), decay, added, state, rest)

    chunks = Chunks(9 + rest, 3)
    tokens = [drawn(1, 2, chunks.count, 3, 4).roll(i) for i in range(3)]
    of_chunk = [drawn(1, 2, chunks.count, *shape) for shape in ((1, 1), (4, 4))]
    arguments = [each.requires_grad_() for each in (*tokens, *of_chunk, drawn(1, 2, 4, 4))]
    assert torch.autograd.gradcheck(passed, arguments)
    assert torch.autograd.gradcheck(lambda a: inverse(a.tril(-1), rest), (drawn(1, 1, 2, 4, 4).requires_grad_(),))
