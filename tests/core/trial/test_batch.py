"""Verification changes one sequence of the batch: in evaluation, the outputs of the others must stay the same."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from harness.core.model.sweep_axes import Case
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.verify import verify

REASON = "it sees other sequences of the batch; is batch_first missing?"


class Recurrent(nn.Module):
    """As a table of recurrent layers has it: torch reads (n, b, d) without `batch_first`."""

    causal = True

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.rnn = nn.GRU(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]


class Attends(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x)[0]


class WeighsTheBatch(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x).softmax(dim=0) * x


class ViewsInsteadOfTransposing(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.mix = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        heads = x.reshape(n, b, d).transpose(0, 1)
        return self.mix(heads).cumsum(1)


class GathersFromTheFirst(nn.Module):
    """Each sequence takes its first token from sequence 0."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        tokens = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1).clone()
        tokens[1:, 1:] += x.shape[1] * torch.arange(1, x.shape[0], device=x.device)[:, None]
        return self.proj(x.flatten(0, 1)[tokens])


class SeesTheLast(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x) + x[-1:].mean()


class SwapsTheMiddle(SeesTheLast):
    """The first and the last sequence of four are their own."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.proj(x)
        return torch.cat((y[:1], y[1:-1].flip(0), y[-1:]))


class SeesTheNextButOne(SeesTheLast):
    """In a batch of one or two, that is the sequence itself."""

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x) + x.roll(-2, 0)


class AddsTheLastButOne(SeesTheLast):
    """The first two have none before them."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.proj(x)
        return torch.cat((y[:2], y[2:] + x[:-2])) if len(x) > 2 else y


class SwapsPairs(SeesTheLast):
    """It takes an even number of sequences only."""

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x).view(len(x) // 2, 2, *x.shape[1:]).flip(1).flatten(0, 1)


class SwapsTwo(SwapsPairs):
    """It says so."""

    @staticmethod
    def supports(case: Case) -> str | None:
        return "two sequences at a time" if case.batch_size % 2 else None


class ScalesPairs(SwapsTwo):
    """It takes an even number too, and mixes none of them."""

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x).view(len(x) // 2, 2, *x.shape[1:]).flatten(0, 1)


class NormalisesTheBatch(nn.Module):
    """Statistics of the batch in training, running ones in evaluation."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.transpose(1, 2)).transpose(1, 2)


class OneSequence(nn.Module):
    """It takes a batch of one only."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.proj(x.squeeze(0)).unsqueeze(0).view(1, x.shape[1], -1)


class RefusesTwo(OneSequence):
    @staticmethod
    def supports(case: Case) -> str | None:
        return None if case.batch_size == 1 else "one sequence at a time"


def softmax_over_the_batch(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).softmax(0) @ v


softmax_over_the_batch.reference = None


class AddsNoise(nn.Module):
    """Each draw takes as many numbers as its rate needs, so sequences after a changed one get other draws."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.draw(x.detach())

    def draw(self, x: Tensor) -> Tensor:
        return torch.poisson(x.abs())


class AddsGamma(AddsNoise):
    def draw(self, x: Tensor) -> Tensor:
        return torch._standard_gamma(x.abs())


class AddsBinomial(AddsNoise):
    def draw(self, x: Tensor) -> Tensor:
        return torch.binomial(torch.full_like(x, 20), x.sigmoid())


class MixesAndAddsNoise(AddsNoise):
    """Each of its draws takes one number."""

    def draw(self, x: Tensor) -> Tensor:
        return torch.randn_like(x) + x.mean(0)


def verified(name: str, **axes: object) -> dict:
    return verify(Case(f"{Path(__file__)}:{name}", 24, 8, 2, **axes), seed=0)


MIXERS = (
    "MixesAndAddsNoise",
    "Recurrent",
    "Attends",
    "WeighsTheBatch",
    "ViewsInsteadOfTransposing",
    "GathersFromTheFirst",
    "SeesTheLast",
)


@pytest.mark.parametrize("name", [*MIXERS, "softmax_over_the_batch"])
@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_a_layer_that_mixes_the_sequences_of_a_batch_is_incorrect(name: str, batch_size: int) -> None:
    with pytest.raises(WrongResult) as raised:
        verified(name, batch_size=batch_size)
    assert str(raised.value) == REASON


@pytest.mark.parametrize("mode", ["train", "backward"])
def test_it_is_incorrect_in_training_too(mode: str) -> None:
    with pytest.raises(WrongResult, match="it sees other sequences of the batch"):
        verified("Recurrent", batch_size=2, mode=mode)


def test_a_layer_that_mixes_only_sequences_in_the_middle_is_incorrect() -> None:
    with pytest.raises(WrongResult, match="it sees other sequences of the batch"):
        verified("SwapsTheMiddle", batch_size=4)


@pytest.mark.parametrize("name", ["SeesTheNextButOne", "AddsTheLastButOne"])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 8])
def test_a_layer_that_mixes_sequences_two_apart_is_incorrect_at_any_batch(name: str, batch_size: int) -> None:
    with pytest.raises(WrongResult) as raised:
        verify(Case(f"{Path(__file__)}:{name}", 24, 8, 2, batch_size=batch_size).small(), seed=0)
    assert str(raised.value) == REASON


@pytest.mark.parametrize("name", ["SwapsPairs", "SwapsTwo"])
def test_a_layer_of_an_even_number_of_sequences_is_checked_at_two(name: str) -> None:
    with pytest.raises(WrongResult, match="it sees other sequences of the batch"):
        verified(name, batch_size=2)


def test_a_layer_of_an_even_number_of_sequences_may_be_correct() -> None:
    assert verified("ScalesPairs", batch_size=2)["output_error"] < 1e-5


def test_half_precision_does_not_hide_the_other_sequence() -> None:
    with pytest.raises(WrongResult, match="it sees other sequences of the batch"):
        verified("Attends", batch_size=2, dtype="bfloat16")


@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
def test_statistics_of_the_batch_in_training_are_no_mistake(mode: str) -> None:
    assert verified("NormalisesTheBatch", batch_size=2, mode=mode)["output_error"] < 1e-5


@pytest.mark.parametrize("name", ["AddsNoise", "AddsGamma", "AddsBinomial"])
def test_draws_that_move_with_the_values_are_no_mistake(name: str) -> None:
    assert verified(name, batch_size=2)["output_error"] < 1e-5


@pytest.mark.parametrize("name", ["OneSequence", "RefusesTwo"])
def test_a_layer_of_one_sequence_passes(name: str) -> None:
    assert verified(name)["output_error"] < 1e-5
