"""Axes that a layer has of its own: `layer.window=64,256`, and letters of its own in claims and shapes."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness import layer_lookup
from harness.config.compose import compose
from harness.errors import UsageError
from harness.layer_options import options_of, sorted_options
from harness.sweep_axes import Case
from harness.trial.layer_protocol import unsupported_reason
from harness.trial.metrics.collect import collect_metrics
from harness.trial.verify import verify
from harness.trial.workload import build

FILE = Path(__file__).parent / "functions.py"
USUAL = ("impl=attention.fused", "seq_len=16", "d_model=16", "num_heads=1")


@pytest.fixture(autouse=True)
def _gradients_as_before() -> Iterator[None]:
    torch.set_grad_enabled(True)
    yield
    torch.set_grad_enabled(True)


def case_of(name: str, **given: Any) -> Case:
    return replace(Case(f"{FILE}:{name}", 12, 16, 4, batch_size=2), **given)


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        (["layer.window=64,256"], ("window=64", "window=256")),
        (["layer.window=[64]", "layer.page_size=16,32"], ("page_size=16+window=64", "page_size=32+window=64")),
        (["options=window=64+page_size=16"], ("page_size=16+window=64",)),
        (["options=none,window=64"], ("none", "window=64")),
        ([], ("none",)),
    ],
)
def test_options_span_an_axis(given: list[str], texts: tuple[str, ...]) -> None:
    assert compose([*USUAL, *given], for_sweep=True).axes["options"] == texts


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["layer.window="], "options=window=: it takes name=value"),
        (["layer.window=64", "layer.window=128"], "layer.window is given twice: give its values in one list"),
        (["layer.window=64", "options=window=128"], "are the same axis: give one of them"),
    ],
)
def test_options_that_cannot_be_read_are_a_mistake_in_words(given: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        compose([*USUAL, *given], for_sweep=True)


def test_values_are_numbers_truth_values_and_words() -> None:
    assert options_of("a=1+b=0.5+c=true+d=null+e=fast") == {"a": 1, "b": 0.5, "c": True, "d": None, "e": "fast"}
    assert sorted_options("b=1+a=2") == "a=2+b=1"


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize(("options", "w"), [("none", 4), ("window=2", 2), ("window=7", 7)])
def test_claims_in_letters_of_their_own_hold_to_the_last_digit(mode: str, options: str, w: int) -> None:
    case = case_of("windowed", mode=mode, options=options)
    facts = collect_metrics(case, seed=0)
    assert facts["flops"] == facts["flops_claimed"] == 2 * (4 if mode == "forward" else 12) * 12 * w * 16
    assert verify(case, seed=0)["against"] == "_windowed_by_mask"


def test_a_shape_may_have_letters_of_its_own() -> None:
    assert build(case_of("expanded"), seed=0).inputs[1].shape == (2, 12, 16, 3)
    assert build(case_of("expanded", options="d_state=5"), seed=0).inputs[1].shape == (2, 12, 16, 5)


def test_any_keyword_with_a_default_is_an_axis_on_request() -> None:
    build(case_of("grouped", options="scale=0.5"), seed=0)
    assert verify(case_of("grouped", options="scale=0.5"), seed=0)["against"] == "itself in float64"


def test_an_unknown_option_is_named_with_the_one_that_is_meant() -> None:
    layer = layer_lookup.load_class(case_of("windowed").impl)
    assert unsupported_reason(layer, case_of("windowed", options="windw=2")) == (
        "it takes no option 'windw'; did you mean 'window'?"
    )


class Repeats(nn.Module):
    axes = {"times": ("r", 2)}  # noqa: RUF012
    claims = {"work": "2nrd²"}  # noqa: RUF012

    def __init__(self, d_model: int, times: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(times))

    def forward(self, x: Tensor) -> Tensor:
        for one in self.layers:
            x = one(x)
        return x


@pytest.mark.parametrize(("options", "r"), [("none", 2), ("times=3", 3)])
def test_the_constructor_of_a_class_takes_options_too(options: str, r: int) -> None:
    facts = collect_metrics(Case(f"{__file__}:Repeats", 6, 8, 1, options=options), seed=0)
    assert facts["flops"] == facts["flops_claimed"] == 2 * 6 * r * 64


@pytest.mark.parametrize("stated", [{"window": "w"}, {"window": ("n", 4)}, {"window": ("ww", 4)}, 3])
def test_axes_that_are_not_letters_with_defaults_are_a_mistake(stated: Any) -> None:
    with pytest.raises(UsageError, match=r"axes"):
        layer_lookup.own_axes(type("Layer", (), {"axes": stated}))
