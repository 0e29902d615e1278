"""What a layer can be asked for is found by looking at it."""

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from torch import Tensor, nn

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.trial.layer_protocol import kv_len, unsupported_reason
from harness.core.trial.workload import build

CASE = Case("own:Layer", 8, 4, 1)


class Plain(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


class Positional(Plain):
    """Has attributes that functions have as well."""

    positional = function = "learned"


class Masked(Plain):
    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        return x


class Recurrent(Plain):
    causal = True

    def start(self, batch_size: int, seq_len: int) -> Any: ...

    def step(self, x_t: Tensor, state: Any) -> tuple[Tensor, Any]: ...


class Crossing(Masked):
    needs_source = True

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None) -> Tensor:
        return x

    def start(self, batch_size: int, seq_len: int) -> Any: ...

    def step(self, x_t: Tensor, state: Any) -> tuple[Tensor, Any]: ...


class Wide(Recurrent):
    input_width = 3


@pytest.mark.parametrize(
    ("layer", "asked", "reason"),
    [
        (Plain, {}, None),
        (Plain, {"mode": "train"}, None),
        (Positional, {}, None),
        (Plain, {"mask": "causal"}, "its forward takes neither is_causal nor attn_mask, and it has no causal = True"),
        (Plain, {"mask": "padding"}, "its forward takes no attn_mask, and it has no causal = True"),
        (Plain, {"kv_len": 5}, "its forward takes no source"),
        (Plain, {"mode": "decode", "mask": "causal"}, "it has no start and step to decode with"),
        (Masked, {"mask": "causal"}, None),
        (Masked, {"mask": "padding"}, None),
        (Recurrent, {"mask": "causal"}, None),
        (Recurrent, {"mask": "padding"}, None),
        (Recurrent, {"mode": "decode", "mask": "causal"}, None),
        (Recurrent, {"mode": "decode", "mask": "padding"}, "one token after another has no padding"),
        (Crossing, {"kv_len": 5}, None),
        (Crossing, {"kv_len": 5, "mask": "padding"}, None),
        (
            Crossing,
            {"kv_len": 5, "mask": "causal"},
            "a source has no later tokens to hide: a causal mask is of a layer's own input",
        ),
        (Crossing, {"kv_len": 5, "mode": "decode"}, "its start takes no source"),
        (Wide, {"mode": "train", "mask": "causal"}, None),
        (
            Wide,
            {"mode": "decode"},
            "its input is 3 times as wide as its output, which cannot be its next token",
        ),
    ],
)
def test_what_it_cannot_be_asked_for_has_a_reason(layer: type, asked: dict[str, Any], reason: str | None) -> None:
    assert unsupported_reason(layer, replace(CASE, **asked)) == reason


def test_its_own_reason_comes_first() -> None:
    class Choosy(Plain):
        @staticmethod
        def supports(case: Case) -> str | None:
            return "no odd n" if case.seq_len % 2 else None

    assert unsupported_reason(Choosy, replace(CASE, seq_len=7, mask="causal")) == "no odd n"
    assert unsupported_reason(Choosy, CASE) is None


def test_its_reason_may_depend_on_its_own_axes() -> None:
    class Windowed(Plain):
        axes: ClassVar = {"window": ("w", 4)}

        def __init__(self, window: int = 4) -> None:
            super().__init__()

        @staticmethod
        def supports(case: Case, window: int) -> str | None:
            return f"window {window} is larger than n = {case.seq_len}" if window > case.seq_len else None

    assert unsupported_reason(Windowed, CASE) is None
    assert unsupported_reason(Windowed, replace(CASE, seq_len=2)) == "window 4 is larger than n = 2"
    assert unsupported_reason(Windowed, replace(CASE, options="window=9")) == "window 9 is larger than n = 8"


def test_a_layer_that_needs_a_source_gets_one_as_long_as_its_input_where_the_case_names_none() -> None:
    assert kv_len(Crossing, CASE) == 8
    assert kv_len(Crossing, replace(CASE, kv_len=5)) == 5
    assert kv_len(Plain, CASE) == 0


def test_a_layer_is_built_with_the_key_value_heads_of_its_case_or_its_own() -> None:
    grouped, own = (build(Case("attention.fused", 8, 32, 8, num_kv_heads=g), seed=0).layer for g in (2, 0))
    assert (grouped.num_kv_heads, own.num_kv_heads) == (2, 8)
    assert build(Case("attention.gqa", 8, 32, 8), seed=0).layer.num_kv_heads == 2


def test_a_layer_without_key_value_heads_refuses_other_numbers_of_them() -> None:
    case = Case("attention.naive", 8, 32, 8, num_kv_heads=2)
    said = unsupported_reason(layer_lookup.load_class("attention.naive"), case)
    assert said == "its constructor takes no num_kv_heads"
    assert layer_lookup.indivisible_size(Case("attention.fused", 8, 32, 8, num_kv_heads=3), has_heads=True) == (
        "num_heads=8 is not divisible by num_kv_heads=3"
    )
