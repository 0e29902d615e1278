"""A block can be asked for what the attention inside can."""

from dataclasses import replace

import pytest
from blocks.parts import D, H
from torch import Tensor, nn

from harness.core.model.sweep_axes import Case
from harness.core.trial.workload import Unsupported, build
from impls.blocks import blocks
from impls.blocks.blocks import Decoder, Encoder


class Refuses(nn.Module):
    """An attention that says what it cannot."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.linear = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)

    @staticmethod
    def supports(case: Case) -> str | None:
        return "not in float16" if case.dtype == "float16" else None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dtype": "float16"}, "not in float16"),
        ({"mask": "causal"}, "the attention inside takes neither is_causal nor attn_mask"),
        ({"mask": "padding", "padding_fraction": 0.5}, "the attention inside takes no attn_mask"),
        ({}, None),
    ],
)
def test_what_the_attention_inside_cannot_the_block_cannot(
    change: dict, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "inside", lambda case: Refuses)
    assert Encoder.supports(Case("encoder.naive", 8, D, H, **change)) == reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"dtype": "float16"}, "not in float16"),
        ({}, "the attention inside takes neither is_causal nor attn_mask"),
        ({"mode": "decode"}, "the attention inside has no start and step to decode with"),
    ],
)
def test_a_decoder_asks_causally_and_of_a_source(
    change: dict, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "inside", lambda case: Refuses)
    assert Decoder.supports(Case("decoder.naive", 8, D, H, **change)) == reason
    monkeypatch.setattr(Refuses, "causal", True, raising=False)
    last = None if not change else reason  # over the source another attention looks
    assert Decoder.supports(Case("decoder.naive", 8, D, H, **change)) == last


class OverASource(Refuses):
    """An attention that takes a source, and no mask; causal or not, over its own input."""

    def forward(self, x: Tensor, source: Tensor | None = None, is_causal: bool = False) -> Tensor:
        return self.linear(x if source is None else source.mean(1, keepdim=True) + x)


class CausalOverASource(OverASource):
    causal = True


@pytest.mark.parametrize("attention", [OverASource, CausalOverASource])
def test_a_padded_source_is_refused_where_the_attention_cannot_be_told_of_padding(
    attention: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "inside", lambda case: attention)
    case = Case("decoder.naive", 8, D, H)
    assert Decoder.supports(case) is None
    padded = replace(case, mask="padding", padding_fraction=0.5)
    reason = "the attention inside takes a source, and no attn_mask to hide its padding with"
    assert Decoder.supports(padded) == reason
    assert Decoder.supports(replace(padded, kv_len=5)) == reason
    with pytest.raises(Unsupported, match=reason):
        build(padded, seed=0)
