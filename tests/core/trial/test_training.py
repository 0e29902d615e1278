"""Layers as they are trained: with noise, frozen weights, power iterations, and recomputed parts."""

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor


class Noisy(nn.Module):
    """Noise of several kinds in training, and none in evaluation."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)

    def noise(self, y: Tensor) -> Tensor:
        return torch.randn_like(y)

    def forward(self, x: Tensor) -> Tensor:
        y = self.proj(x)
        return y + self.noise(y) * y if self.training else y


class Uniform(Noisy):
    def noise(self, y: Tensor) -> Tensor:
        return torch.rand_like(y)


class InPlace(Noisy):
    def noise(self, y: Tensor) -> Tensor:
        return torch.empty_like(y).normal_(0.5, 2.0)


class OfAShape(Noisy):
    def noise(self, y: Tensor) -> Tensor:
        return torch.randn(y.shape, dtype=y.dtype, device=y.device)


class Coins(Noisy):
    def noise(self, y: Tensor) -> Tensor:
        return torch.bernoulli(torch.full_like(y, 0.4)) + nn.functional.dropout(y, 0.3)


class Gumbel(Noisy):
    def noise(self, y: Tensor) -> Tensor:
        return nn.functional.gumbel_softmax(y, tau=0.7)


class InFloat64(Noisy):
    """Asks for float64 whatever the dtype of the case, as where a logarithm of the noise follows."""

    def noise(self, y: Tensor) -> Tensor:
        return (1 - torch.rand(y.shape, dtype=torch.float64)).log().to(y.dtype)


class OwnGenerator(Noisy):
    def noise(self, y: Tensor) -> Tensor:
        return torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)).to(y.dtype)


class OfPython(Noisy):
    """Leaves the projection out in some calls."""

    def noise(self, y: Tensor) -> Tensor:
        return y if random.random() < 0.5 else -y * random.random()


class OfNumpy(Noisy):
    def noise(self, y: Tensor) -> Tensor:
        return y * float(np.random.normal())


class Recomputed(Noisy):
    def noise(self, y: Tensor) -> Tensor:
        return checkpoint(lambda z: torch.randn_like(z) * z, y, use_reentrant=False)


class WrongAndNoisy(Noisy):
    """Its gradients are not those of its formula."""

    def noise(self, y: Tensor) -> Tensor:
        return torch.randn_like(y) + (y.detach() - y if y.dtype == torch.float32 else 0)


class Adapter(nn.Module):
    """A frozen projection, and a trained one of rank 2."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.base = nn.Linear(d_model, d_model).requires_grad_(False)
        self.down, self.up = nn.Linear(d_model, 2, bias=False), nn.Linear(2, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.up(self.down(x))


class Spectral(nn.Module):
    """Each pass in training takes one step of a power iteration."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.utils.parametrizations.spectral_norm(nn.Linear(d_model, d_model))

    def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
        return self.proj(x)


class DoublesItsInput(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(x.mul_(2))


class DoublesACopy(DoublesItsInput):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.clone())


class BesideDoubled(DoublesACopy):
    reference = DoublesItsInput


class Reentrant(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return checkpoint(self.proj, x, use_reentrant=True)


class SparseEmbedding(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear, self.places = nn.Linear(d_model, d_model), nn.Embedding(50, d_model, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.places(torch.arange(x.shape[1]))


class WithoutGradient(nn.Module):
    """The output has a backward pass, which reaches nothing, as that of a quantized layer."""

    class Cut(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Tensor) -> Tensor:
            return 2 * x

        @staticmethod
        def backward(context: Any, gradient: Tensor) -> None:
            return None

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return self.Cut.apply(x)


def scan(x: Tensor, weight: Tensor) -> Tensor:
    state = torch.zeros_like(x[:, 0])
    states = [state]
    for t in range(x.size(1)):
        state = torch.tanh(x[:, t] + state @ weight)
        states.append(state)
    return torch.stack(states[1:], 1)


class Scripted(nn.Module):
    """Torch compiles it anew in each of its first calls."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_model, d_model) / 8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls scripts deprecated
            self.scan = torch.jit.script(scan)

    def forward(self, x: Tensor) -> Tensor:
        return self.scan(x, self.weight)


def own(layer: type, mode: str, **axes: object) -> Case:
    return Case(f"{Path(__file__)}:{layer.__name__}", 24, 64, 1, batch_size=2, mode=mode, **axes)


NOISY = [Noisy, Uniform, InPlace, OfAShape, Coins, Gumbel, InFloat64, OwnGenerator, OfPython, OfNumpy, Recomputed]


@pytest.mark.parametrize("layer", NOISY)
@pytest.mark.parametrize("mode", ["train", "backward"])
def test_a_layer_that_draws_noise_in_training_is_compared_with_the_same_noise(
    runner: Executor, layer: type, mode: str
) -> None:
    outcome = runner.run("verify", own(layer, mode))
    assert (outcome.status, outcome.reason) == ("ok", None)
    assert outcome.values["gradient_error"] < 1e-5


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
def test_noise_has_the_precision_of_the_case(runner: Executor, dtype: str) -> None:
    assert runner.run("verify", own(Noisy, "train", dtype=dtype)).reason is None


@pytest.mark.parametrize("layer", [Noisy, InFloat64, OfPython])
def test_the_noise_is_the_same_at_the_timed_size(runner: Executor, layer: type) -> None:
    values = runner.run("facts", own(layer, "train")).values
    assert values["output_error"] < 1e-5
    assert values["gradient_error"] < 1e-5


def test_noise_does_not_hide_a_wrong_gradient(runner: Executor) -> None:
    outcome = runner.run("verify", own(WrongAndNoisy, "train"))
    assert outcome.status == "incorrect"
    assert outcome.reason.startswith("gradient of ")


@pytest.mark.parametrize("layer", [Adapter, Spectral, SparseEmbedding])
@pytest.mark.parametrize("mode", ["train", "backward"])
@pytest.mark.parametrize("purpose", ["verify", "facts", "time"])
def test_frozen_weights_power_iterations_and_sparse_gradients_are_measured(
    runner: Executor, layer: type, mode: str, purpose: str
) -> None:
    outcome = runner.run(purpose, own(layer, mode))
    assert (outcome.status, outcome.reason) == ("ok", None)


def test_a_power_iteration_is_no_look_at_later_tokens(runner: Executor) -> None:
    assert runner.run("verify", own(Spectral, "train", mask="causal")).reason is None


def test_reentrant_checkpoints_have_no_backward_pass_alone(runner: Executor) -> None:
    outcome = runner.run("verify", own(Reentrant, "backward"))
    assert outcome.status == "unsupported"
    assert outcome.reason == (
        "mode=backward needs checkpoint(…, use_reentrant=False): write it in the layer, or give mode=train"
    )
    assert runner.run("verify", own(Reentrant, "train")).status == "ok"


@pytest.mark.parametrize("purpose", ["verify", "facts", "time"])
@pytest.mark.parametrize("mode", ["train", "backward"])
def test_an_input_with_a_gradient_is_changed_in_a_copy(runner: Executor, mode: str, purpose: str) -> None:
    outcome = runner.run(purpose, own(DoublesItsInput, mode))
    assert (outcome.status, outcome.reason) == (
        "unsupported",
        "it changes an input or a weight in place, which torch forbids where that gets a gradient: write x = x.clone()",
    )
    assert runner.run(purpose, own(DoublesItsInput, "forward")).reason is None
    assert runner.run(purpose, own(DoublesACopy, mode)).reason is None


def test_a_reference_that_changes_an_input_is_named(runner: Executor) -> None:
    outcome = runner.run("verify", own(BesideDoubled, "train"))
    assert outcome.reason.startswith("its reference DoublesItsInput fails: it changes an input or a weight in place")


@pytest.mark.parametrize("mode", ["train", "backward"])
def test_a_backward_pass_that_reaches_nothing_is_no_training(runner: Executor, mode: str) -> None:
    outcome = runner.run("verify", own(WithoutGradient, mode))
    assert (outcome.status, outcome.reason) == (
        "unsupported",
        "its backward pass passes no gradient to any input or weight",
    )


def test_what_torchscript_takes_to_compile_is_no_memory_of_a_call(runner: Executor) -> None:
    facts = runner.run("facts", own(Scripted, "train")).values
    assert facts["peak_bytes"] == facts["peak_traced_bytes"]
    assert facts["peak_resident_bytes"] < 2**20
