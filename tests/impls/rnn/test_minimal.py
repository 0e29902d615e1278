"""minGRU and minLSTM: a loop and a scan in log space that are one function."""

import pytest
import torch
from torch import Tensor, nn

from harness.core.model.sweep_axes import Case
from harness.core.trial.layer_protocol import unsupported_reason
from harness.core.trial.result_checks import tolerance
from impls.rnn.minimal import MinGRU, MinLSTM, ParallelMinGRU, ParallelMinLSTM, g, log_g, log_scan
from impls.rnn.reference import MinGRUReference, MinLSTMReference

D = 6
PAIRS = [(MinGRU, ParallelMinGRU), (MinLSTM, ParallelMinLSTM)]
GRUS = [MinGRU, ParallelMinGRU, MinGRUReference]
LSTMS = [MinLSTM, ParallelMinLSTM, MinLSTMReference]


def inputs(n: int, b: int = 2, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(b, n, D).to(dtype).requires_grad_()


def weighted_sum(keep: Tensor, add: Tensor) -> Tensor:
    """h_t = Σ_{s ≤ t} (Π_{s < j ≤ t} keep_j) add_s, every product by itself: (b, n, d) -> (b, n, d)."""
    n = keep.shape[1]
    return torch.stack(
        [sum(keep[:, s + 1 : t + 1].prod(dim=1) * add[:, s] for s in range(t + 1)) for t in range(n)], dim=1
    )


def hold(layer: nn.Module, name: str, at: float) -> None:
    """Let a projection give the same number whatever comes in."""
    projection = getattr(layer, name)
    with torch.no_grad():
        projection.weight.zero_()
        projection.bias.fill_(at)


def test_g_is_positive_rising_and_continuous() -> None:
    x = torch.linspace(-30, 30, 6001, dtype=torch.float64)
    assert (g(x) > 0).all()
    assert (g(x).diff() > 0).all()
    torch.testing.assert_close(g(x[x.abs() < 1e-9]), torch.tensor([0.5], dtype=torch.float64))
    torch.testing.assert_close(g(torch.tensor([-2.0, 3.0])), torch.tensor([1 / (1 + torch.e**2), 3.5]))


def test_log_g_is_its_logarithm_with_the_same_slope() -> None:
    x = torch.linspace(-30, 30, 601, dtype=torch.float64, requires_grad=True)
    torch.testing.assert_close(log_g(x), g(x).log())
    slope, expected = (torch.autograd.grad(y.sum(), x)[0] for y in (log_g(x), g(x).log()))
    torch.testing.assert_close(slope, expected)


def test_log_g_and_its_slope_are_finite_where_g_is_rounded_to_0() -> None:
    x = torch.tensor([-1e4, 0.0, 1e4], requires_grad=True)
    log_g(x).sum().backward()
    assert log_g(x)[0] == -1e4
    torch.testing.assert_close(x.grad, torch.tensor([1.0, 2.0, 1e-4]))


@pytest.mark.parametrize("layer_class", GRUS)
def test_mingru_is_the_weighted_sum_of_its_candidates(layer_class: type) -> None:
    layer, x = layer_class(D).double(), inputs(9)
    z = torch.sigmoid(layer.gate(x))
    torch.testing.assert_close(layer(x), weighted_sum(1 - z, z * g(layer.candidate(x))))


@pytest.mark.parametrize("layer_class", LSTMS)
def test_minlstm_is_the_weighted_sum_of_its_candidates(layer_class: type) -> None:
    layer, x = layer_class(D).double(), inputs(9)
    f, i = torch.sigmoid(layer.forget(x)), torch.sigmoid(layer.input(x))
    torch.testing.assert_close(layer(x), weighted_sum(f / (f + i), i / (f + i) * g(layer.candidate(x))))


@pytest.mark.parametrize(("loop", "scan"), PAIRS)
@pytest.mark.parametrize("n", [1, 2, 33])
def test_the_scan_is_the_loop_with_its_gradients(loop: type, scan: type, n: int) -> None:
    one, other = loop(D).double(), scan(D).double()
    other.load_state_dict(one.state_dict())
    x = inputs(n)
    torch.testing.assert_close(other(x), one(x))
    towards = torch.randn(x.shape, dtype=x.dtype)
    got, expected = (torch.autograd.grad(layer(x), [x, *layer.parameters()], towards) for layer in (other, one))
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("layer_class", [MinGRU, ParallelMinGRU, MinLSTM, ParallelMinLSTM])
def test_gradients_are_those_of_finite_differences(layer_class: type) -> None:
    assert torch.autograd.gradcheck(layer_class(D).double(), (inputs(4, b=1),))


@pytest.mark.parametrize("layer_class", [MinGRU, ParallelMinGRU, MinLSTM, ParallelMinLSTM])
def test_steps_and_prefills_in_any_pieces_go_on_from_the_state_before(layer_class: type) -> None:
    layer, x = layer_class(D).double(), inputs(7).detach()
    expected = layer(x)
    state = layer.start(2, 7)
    y, state = layer.step(x[:, 0], state)
    torch.testing.assert_close(y, expected[:, 0])
    state = layer.prefill(x[:, 3:6], layer.prefill(x[:, 1:3], state))
    for _ in range(2):  # from the same state twice
        torch.testing.assert_close(layer.step(x[:, 6], state)[0], expected[:, 6])


@pytest.mark.parametrize("layer_class", [MinGRU, ParallelMinGRU])
@pytest.mark.parametrize("gate", [-200.0, 200.0])
def test_a_gate_without_a_doubt_makes_neither_outputs_nor_gradients_infinite(layer_class: type, gate: float) -> None:
    layer, x = layer_class(D), inputs(50, dtype=torch.float32)
    hold(layer, "gate", gate)
    y = layer(x)
    torch.testing.assert_close(y, g(layer.candidate(x)) if gate > 0 else torch.zeros_like(y))
    y.sum().backward()
    assert all(leaf.grad is not None and leaf.grad.isfinite().all() for leaf in (x, *layer.parameters()))


@pytest.mark.parametrize("layer_class", [MinLSTM, ParallelMinLSTM])
def test_of_minlstms_gates_only_the_ratio_matters_even_where_both_are_rounded_to_0(layer_class: type) -> None:
    layer, x = layer_class(D), inputs(20, dtype=torch.float32)
    outputs = []
    for both in (-200.0, 200.0):
        hold(layer, "forget", both)
        hold(layer, "input", both)
        outputs.append(layer(x))
    candidates, half = g(layer.candidate(x)), torch.full_like(x, 0.5)
    torch.testing.assert_close(outputs[1], weighted_sum(half, half * candidates))
    torch.testing.assert_close(outputs[0], outputs[1])


@pytest.mark.parametrize(("loop", "scan"), PAIRS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_over_4096_tokens_outputs_and_gradients_keep_their_digits(loop: type, scan: type, dtype: torch.dtype) -> None:
    layer = scan(D).to(dtype)
    exact = loop(D).double()
    exact.load_state_dict({name: value.double() for name, value in layer.state_dict().items()})
    x = inputs(4096, b=1, dtype=dtype)
    x_exact = x.detach().double().requires_grad_()
    y, expected, towards = layer(x), exact(x_exact), torch.randn(1, 4096, D).to(dtype)
    y.backward(towards)
    expected.backward(towards.double())
    wanted = {"output": expected.detach(), "input": x_exact.grad}
    got = {"output": y.detach(), "input": x.grad}
    wanted.update((name, parameter.grad) for name, parameter in exact.named_parameters())
    got.update((name, parameter.grad) for name, parameter in layer.named_parameters())
    for name, want in wanted.items():
        # The gradient of a weight is a product over all tokens, in float32 at best.
        limit = tolerance(dtype, 4096 if name.endswith("weight") else D)
        assert (got[name].double() - want).norm() <= limit * want.norm(), name


def test_the_scan_gives_back_the_dtype_it_was_given() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert log_scan(torch.zeros(1, 3, 2, dtype=dtype), torch.zeros(1, 3, 2, dtype=dtype)).dtype == dtype


@pytest.mark.parametrize("scan", [ParallelMinGRU, ParallelMinLSTM])
def test_the_scan_in_log_space_is_refused_in_float64_and_in_nothing_less(scan: type) -> None:
    case = Case("rnn.mingru.parallel", 8, D, 1)
    assert unsupported_reason(scan, case) is None
    assert "no dtype is wider" in str(unsupported_reason(scan, Case("rnn.mingru.parallel", 8, D, 1, dtype="float64")))
