"""The scan by doubling: the loop's numbers in ⌈log₂ n⌉ steps, and its gradients at the memory of two tensors."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from harness.core.trial.counts.after_call import saved_bytes
from impls.rnn.reference import LinearScanReference
from impls.rnn.scan import LinearScan, doubling_scan, linear_recurrence

D = 3


def terms(n: int, b: int = 2) -> tuple[Tensor, Tensor]:
    a = torch.rand(b, n, D, dtype=torch.float64, requires_grad=True)
    return a, torch.randn(b, n, D, dtype=torch.float64, requires_grad=True)


def loop(a: Tensor, b: Tensor) -> Tensor:
    states = [b[:, 0]]
    for t in range(1, b.shape[1]):
        states.append(a[:, t] * states[-1] + b[:, t])
    return torch.stack(states, dim=1)


class Joins(TorchDispatchMode):
    """How often stretches are joined."""

    number = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.number += func is torch.ops.aten.addcmul.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("n", [*range(1, 18), 33, 100])
def test_of_any_length_it_is_the_loop_with_its_gradients(n: int) -> None:
    a, b = terms(n)
    h, expected = linear_recurrence(a, b), loop(a, b)
    torch.testing.assert_close(h, expected)
    towards = torch.randn_like(h)
    got = torch.autograd.grad(h, (a, b), towards)
    # The first factor meets h_0 = 0, and the loop leaves it out.
    of_a, of_b = torch.autograd.grad(expected, (a, b), towards, materialize_grads=True)
    torch.testing.assert_close(got, (of_a, of_b))


@pytest.mark.parametrize(("n", "joins"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (64, 6), (65, 7), (1000, 10)])
def test_it_takes_as_many_steps_as_the_length_has_doublings(n: int, joins: int) -> None:
    a, b = terms(n)
    with Joins() as counted:
        linear_recurrence(a, b)
    assert counted.number == joins


def test_its_gradients_and_theirs_are_those_of_finite_differences() -> None:
    a, b = terms(5, b=1)
    assert torch.autograd.gradcheck(linear_recurrence, (a, b))
    assert torch.autograd.gradgradcheck(linear_recurrence, (a, b))


def test_one_graph_can_be_gone_back_through_twice() -> None:
    a, b = terms(9)
    h = linear_recurrence(a, b)
    first, again = (torch.autograd.grad(h.sum(), (a, b), retain_graph=True) for _ in range(2))
    torch.testing.assert_close(first, again, rtol=0, atol=0)


def test_what_it_saves_for_the_backward_pass_grows_with_n_alone_and_not_with_the_steps() -> None:
    def saved(n: int, of: Any) -> float:
        a, b = terms(n, b=1)

        def forget() -> None:
            a.grad = b.grad = None

        return saved_bytes(lambda: of(a, b), torch.ones_like(b), "cpu", forget) / n

    assert saved(64, linear_recurrence) == saved(1024, linear_recurrence) == 8 * D  # a is there already: h
    assert saved(1024, doubling_scan) > saved(64, doubling_scan) > 8 * D


@pytest.mark.parametrize("layer_class", [LinearScan, LinearScanReference])
def test_the_layer_is_the_weighted_sum_of_its_values(layer_class: type) -> None:
    layer, x = layer_class(D).double(), torch.randn(2, 9, D, dtype=torch.float64)
    a = torch.sigmoid(x @ layer.gate.weight.t() + layer.gate.bias)
    torch.testing.assert_close(layer(x), loop(a, (1 - a) * (x @ layer.value.weight.t())))


def test_the_layers_gradients_are_those_of_finite_differences() -> None:
    x = torch.randn(1, 5, D, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(LinearScan(D).double(), (x,))


def test_steps_and_prefills_in_any_pieces_go_on_from_the_state_before() -> None:
    layer, x = LinearScan(D).double(), torch.randn(2, 7, D, dtype=torch.float64)
    expected = layer(x)
    y, state = layer.step(x[:, 0], layer.start(2, 7))
    torch.testing.assert_close(y, expected[:, 0])
    state = layer.prefill(x[:, 3:6], layer.prefill(x[:, 1:3], state))
    for _ in range(2):  # from the same state twice
        torch.testing.assert_close(layer.step(x[:, 6], state)[0], expected[:, 6])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_over_4096_tokens_it_stays_on_the_loop(dtype: torch.dtype) -> None:
    a, b = (tensor.detach().to(dtype) for tensor in terms(4096, b=1))
    expected = loop(a.double(), b.double())
    error = (linear_recurrence(a, b).double() - expected).norm() / expected.norm()
    assert error < 2 * torch.finfo(dtype).eps
