"""Correct before fast: right layers pass, planted wrong ones do not."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from harness.core.model.sweep_axes import DTYPES, MODES, Case
from harness.core.run.executor import Executor
from harness.core.trial.result_checks import tolerance

# Of all others, the tests of the ladder.
FIRST = ("rnn.elman", "rnn.torch", "attention.naive", "attention.packed", "attention.fused")
# Each layer in each mode and in each dtype, and each mode in each dtype.
IN_PAIRS = [(impl, mode, DTYPES[(i + j) % len(DTYPES)]) for i, impl in enumerate(FIRST) for j, mode in enumerate(MODES)]


@pytest.mark.parametrize(("impl", "mode", "dtype"), IN_PAIRS)
def test_every_layer_agrees_with_its_reference(runner: Executor, impl: str, mode: str, dtype: str) -> None:
    outcome = runner.run("verify", Case(impl, 48, 32, 4, batch_size=2, mode=mode, dtype=dtype))
    assert outcome.status == "ok", outcome.reason
    assert ("gradient_error" in outcome.values) == (mode in ("train", "backward"))
    assert outcome.values["against"].endswith("Reference")


@pytest.mark.parametrize(
    ("layer", "mode", "reason"),
    [
        ("ForgetsTheScale", "forward", "output is off by"),
        ("ForgetsTheKeys", "train", "gradient of"),
        ("PassesAGradient", "train", "gradient of input is off by"),
        ("PassesAGradient", "backward", "gradient of input is off by"),
        ("Autocast", "forward", "(a layer that rounds more declares `allowed_error`)"),
        ("ReturnsATuple", "forward", "it returned a tuple, not a tensor"),
        ("ReturnsTheWrongShape", "forward", r"it returned shape (1, 31, 8) for an input of shape (1, 32, 8)"),
        ("ReturnsNaN", "forward", "output is not finite"),
        ("ReturnsGarbage", "forward", "output is off by"),
        # Rounded at 10⁴, to a multiple of 2⁻¹⁰. Its reference must not convert to float32 as it does itself.
        ("Cancels", "forward", "output is off by 3.0e-04 of its norm"),
        ("CancelsAsItsReferenceDoes", "forward", "output is off by 3.0e-04 of its norm"),
        ("KeepsItsResult", "forward", "with a second input its output is off by"),
    ],
)
def test_a_wrong_layer_is_wrong_and_says_how(runner: Executor, layer: str, mode: str, reason: str) -> None:
    outcome = runner.run("verify", Case(f"planted:{layer}", 32, 8, 2, mode=mode))
    assert outcome.status == "incorrect"
    assert reason in outcome.reason


def test_a_layer_whose_kept_result_has_no_graph_left_is_asked_whether_it_keeps_results(runner: Executor) -> None:
    outcome = runner.run("verify", Case("planted:KeepsItsResult", 32, 8, 2, mode="train"))
    assert "graph a second time: does the layer keep a tensor of an earlier call?" in outcome.reason


def test_wrong_gradients_do_not_spoil_a_forward_pass(runner: Executor) -> None:
    assert runner.run("verify", Case("planted:ForgetsTheKeys", 32, 8, 2)).status == "ok"


def test_without_a_reference_a_layer_is_held_against_itself_in_float64(runner: Executor) -> None:
    outcome = runner.run("verify", Case("planted:NoHeads", 32, 8, 1, mode="train"))
    assert (outcome.status, outcome.values["against"]) == ("ok", "itself in float64")


@pytest.mark.parametrize("purpose", ["verify", "time"])
@pytest.mark.parametrize("mode", ["train", "backward"])
def test_a_gradient_that_is_zero_but_for_rounding_is_right(runner: Executor, mode: str, purpose: str) -> None:
    outcome = runner.run(purpose, Case("planted:BiasedKeys", 32, 8, 1, mode=mode))
    assert (outcome.status, outcome.reason) == ("ok", None)


def test_a_layer_that_draws_random_numbers_is_held_against_the_same_draws(runner: Executor) -> None:
    assert runner.run("verify", Case("planted:Drops", 32, 8, 2, mode="train")).status == "ok"


def test_a_float32_constant_is_read_as_float64_in_the_reference(runner: Executor) -> None:
    outcome = runner.run("verify", Case("planted:HasAFloat32Constant", 32, 8, 2))
    assert (outcome.status, outcome.values["output_error"]) == ("ok", 0)  # a product with the identity is exact


def test_a_layer_that_does_not_run_in_float64_is_not_wrong_for_that(runner: Executor) -> None:
    outcome = runner.run("verify", Case("planted:TakesFloat32", 32, 8, 2))
    assert (outcome.status, outcome.values["output_error"]) == ("ok", None)


def test_the_tolerance_is_what_rounding_explains_and_no_more() -> None:
    assert tolerance(torch.float32, 64) < 3e-6
    assert tolerance(torch.bfloat16, 4096) < 0.1
    assert tolerance(torch.float64, 64) < 1e-14


def test_a_gpus_fast_functions_are_rounding_and_tf32_is_not() -> None:
    # cuDNN's RNN of an H200 in float32, d = 256; a TF32 product keeps 10 bits of each factor.
    assert 5.1e-6 < tolerance(torch.float32, 256, "cuda") < 2**-11 / 10


class Scaled(nn.Module):
    """Weights that change nothing at first: a scale of 1, a bias of 0, and an adapter whose second part is 0."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.down = nn.Parameter(torch.randn(d_model, 2))
        self.up = nn.Parameter(torch.zeros(2, d_model))

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x) + x @ self.down @ self.up


class ScaledToo(Scaled):
    reference = Scaled


class ForgetsTheNorm(ScaledToo):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.layer_norm(x, x.shape[-1:]) + x @ self.down @ self.up


class ForgetsTheAdapter(ScaledToo):
    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


@pytest.mark.parametrize(
    ("layer", "status"), [(ScaledToo, "ok"), (ForgetsTheNorm, "incorrect"), (ForgetsTheAdapter, "incorrect")]
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_layer_that_forgets_a_weight_is_found_though_its_first_value_changes_nothing(
    layer: type, status: str, dtype: str, runner: Executor
) -> None:
    case = Case(f"{Path(__file__)}:{layer.__name__}", 16, 8, 1, dtype=dtype)
    assert runner.run("verify", case).status == status
