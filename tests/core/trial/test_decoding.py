"""A layer whose steps are not what it does all at once is wrong, whichever way they differ."""

from typing import Any

import pytest
import torch
from torch import Tensor

from harness.core.model.sweep_axes import Case
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.verify import verify
from harness.core.trial.workload import Unsupported, build
from impls.rnn.gated import Elman


class Forgetful(Elman):
    """Its state never changes."""

    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return super().step(x_t, h)[0], h


class Impatient(Elman):
    """Its state changes where it lies: the same step taken again is another one."""

    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        new, _ = super().step(x_t, h)
        h.copy_(new)
        return new, h


class WrongPrefill(Elman):
    def prefill(self, x: Tensor, h: Tensor) -> Tensor:
        return h


class StartsAnewAfterAPrefill(Elman):
    """Its first step after a prefill is right, and leaves a state without it."""

    def prefill(self, x: Tensor, h: Tensor) -> tuple[Tensor]:
        for x_t in x.unbind(1):
            h = super().step(x_t, h)[1]
        return (h,)

    def step(self, x_t: Tensor, h: Any) -> tuple[Tensor, Tensor]:
        if isinstance(h, tuple):
            return super().step(x_t, h[0])[0], h[0]
        return super().step(x_t, h)


class NoPair(Elman):
    def step(self, x_t: Tensor, h: Tensor) -> Any:
        return super().step(x_t, h)[0]


class WrongShape(Elman):
    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return h[:, None], h


class KeepsSteps(Elman):
    """Returns the earlier result of a step on the same values."""

    def step(self, x_t: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        kept = self.__dict__.setdefault("kept", {})
        key = tuple(given.detach().numpy().tobytes() for given in (x_t, h))
        if key not in kept:
            kept[key] = super().step(x_t, h)
        return kept[key]


CASE = {"seq_len": 12, "d_model": 8, "num_heads": 1, "batch_size": 2, "mode": "decode", "mask": "causal"}


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (Forgetful, "what it decodes step by step is off by"),
        (Impatient, "the same step taken again is off by"),
        (WrongPrefill, "the last token after a prefill is off by"),
        (StartsAnewAfterAPrefill, "steps after a prefill is off by"),
        (NoPair, "its step returned a Tensor, not a pair of an output and a state"),
        (WrongShape, r"its step returned shape \(2, 1, 8\) for an input of shape \(2, 8\)"),
        (KeepsSteps, "it returns the result of an earlier call: a new input takes"),
    ],
)
def test_it_is_wrong(layer: type, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.core.layers.layer_lookup.load_class", lambda name: layer)
    with pytest.raises(WrongResult, match=said):
        verify(Case("rnn.elman", **CASE), seed=0)


@pytest.mark.parametrize("n", [1, 2, 12])
def test_the_call_that_is_timed_is_the_nth_token_after_all_before_it(n: int) -> None:
    work = build(Case("attention.fused", n, 8, 2, mode="decode", mask="causal"), seed=0)
    whole = work.forward()
    torch.testing.assert_close(work.call(), whole[:, -1])
    torch.testing.assert_close(work.call(), whole[:, -1])


def test_generation_goes_as_far_as_there_is_room() -> None:
    assert verify(Case("rnn.elman", 5, 8, 1, mode="decode", mask="causal"), seed=0)["generated"] == 5


def test_without_steps_it_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.core.layers.layer_lookup.load_class", lambda name: torch.nn.Identity)
    with pytest.raises(Unsupported, match="it has no start and step to decode with"):
        build(Case("rnn.elman", **CASE), seed=0)
