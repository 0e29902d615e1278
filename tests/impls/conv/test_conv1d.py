"""The convolution: which tokens each output sees, through which tap."""

import pytest
import torch
from torch import Tensor, nn

from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import trace_call
from harness.core.trial.workload import build
from impls.conv.conv1d import Conv1d, ConvReference

D = 4
BOTH = [Conv1d, ConvReference]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def inputs(n: int, b: int = 2) -> Tensor:
    return torch.randn(b, n, D, dtype=torch.float64, requires_grad=True)


def sees(layer: nn.Module, n: int, t: int, **asked: object) -> list[int]:
    """The positions that the output at t depends on."""
    x = inputs(n, b=1)
    (gradient,) = torch.autograd.grad(layer(x, **asked)[:, t].sum(), x)
    return gradient[0].abs().sum(dim=-1).nonzero()[:, 0].tolist()


@pytest.mark.parametrize("layer_class", BOTH)
@pytest.mark.parametrize(
    ("k", "centred", "causal"),
    [(1, [4], [4]), (2, [4, 5], [3, 4]), (3, [3, 4, 5], [2, 3, 4]), (4, [3, 4, 5, 6], [1, 2, 3, 4])],
)
def test_a_token_sees_k_with_itself_in_the_middle_and_under_a_causal_mask_at_the_end(
    layer_class: type, k: int, centred: list[int], causal: list[int]
) -> None:
    layer = layer_class(D, kernel_size=k).double()
    assert sees(layer, 9, 4) == centred
    assert sees(layer, 9, 4, is_causal=True) == causal


@pytest.mark.parametrize("layer_class", BOTH)
@pytest.mark.parametrize("n", [1, 2, 9])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_it_loads_the_weights_of_torchs_own_convolution_and_agrees_with_it(layer_class: type, n: int, k: int) -> None:
    module, layer = nn.Conv1d(D, D, k, padding="same").double(), layer_class(D, kernel_size=k).double()
    layer.load_state_dict(module.state_dict())
    x = inputs(n)
    torch.testing.assert_close(layer(x), module(x.transpose(1, 2)).transpose(1, 2))
    later = nn.functional.pad(x.transpose(1, 2), (k - 1, 0))
    causal = nn.functional.conv1d(later, layer.weight, layer.bias).transpose(1, 2)
    torch.testing.assert_close(layer(x, is_causal=True), causal)


@pytest.mark.parametrize("asked", [{}, {"is_causal": True}])
def test_gradients_are_those_of_finite_differences(asked: dict[str, bool]) -> None:
    layer = Conv1d(D).double()
    assert torch.autograd.gradcheck(lambda x: layer(x, **asked), (inputs(4, b=1),))


@pytest.mark.parametrize("layer_class", BOTH)
def test_padding_counts_as_0_whatever_stands_there(layer_class: type) -> None:
    layer, x = layer_class(D).double(), inputs(6).detach()
    lengths = (4, 6)
    real = torch.arange(6)[None] < torch.tensor(lengths)[:, None]
    x[0, 4:] = 1e6
    y = layer(x, attn_mask=real[:, None, None])
    for i, length in enumerate(lengths):
        torch.testing.assert_close(y[i, :length], layer(x[i : i + 1, :length])[0])


def test_not_even_what_is_no_number_gets_out_of_padding() -> None:
    layer, x = Conv1d(D), torch.full((1, 3, D), float("nan"))
    x[:, :2] = 1.0
    assert layer(x, attn_mask=torch.tensor([True, True, False])[None, None, None]).isfinite().all()


def test_a_mask_that_is_no_padding_is_refused_by_its_shape() -> None:
    causal = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
    with pytest.raises(ValueError, match=r"attn_mask has shape \(1, 1, 5, 5\): a convolution can leave out padding"):
        Conv1d(D)(torch.randn(1, 5, D), attn_mask=causal)


def test_a_kernel_without_taps_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel_size=0: a convolution has one tap at least"):
        Conv1d(D, kernel_size=0)


@pytest.mark.parametrize("k", [1, 2, 3, 5])
def test_steps_and_prefills_in_any_pieces_are_the_causal_pass(k: int) -> None:
    layer, x = Conv1d(D, kernel_size=k).double(), inputs(7).detach()
    expected = layer(x, is_causal=True)
    y, state = layer.step(x[:, 0], layer.start(2, 7))
    torch.testing.assert_close(y, expected[:, 0])
    state = layer.prefill(x[:, 3:6], layer.prefill(x[:, 1:3], state))
    assert state.shape == (2, D, k - 1)
    for _ in range(2):  # from the same state twice
        torch.testing.assert_close(layer.step(x[:, 6], state)[0], expected[:, 6])


@pytest.mark.parametrize("n", [1, 2, 10])
def test_the_zeros_beyond_either_end_are_work_like_any_other_input(n: int) -> None:
    for mask in ("none", "causal"):
        torch.set_grad_enabled(True)
        work = trace_call(build(Case("conv.conv1d", n, D, 1, mask=mask), seed=0)).flops.work
        assert work is not None
        assert work.flops == 6 * n * D**2
