"""What in a decoder looks over the source, and which source that is."""

import pytest
import torch
from blocks.parts import CAUSAL, FUSED, WINDOW, D, H, drawn, tokens
from ladder import BLOCK_OF_EACH_KIND
from torch import nn

from harness.core.model.sweep_axes import Case
from harness.core.trial.verify import verify
from harness.core.trial.workload import build
from impls.blocks.blocks import Decoder, arguments_for, find, sinusoids


@pytest.mark.parametrize("attention", [*CAUSAL, WINDOW])
def test_where_the_attention_takes_no_source_a_fused_attention_looks_over_it(attention: str) -> None:
    block = drawn(Decoder(D, H, attention=attention))
    assert type(block.self_attention) is find(attention)
    assert type(block.cross_attention) is find(FUSED)
    x, source, real = tokens(2, 9, D), tokens(2, 5, D), torch.arange(5) < torch.tensor([[5], [2]])
    seen = block.norm1(
        x
        + sinusoids(9, x)
        + block.self_attention(x + sinusoids(9, x), **arguments_for(block.self_attention, x, is_causal=True))
    )
    theirs = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
    theirs.load_state_dict(block.cross_attention.state_dict())
    over_it = block.norm2(seen + theirs(seen, source, source, key_padding_mask=~real, need_weights=False)[0])
    torch.testing.assert_close(
        block(x, source, attn_mask=real[:, None, None]), block.norm3(over_it + block.feed_forward(over_it))
    )


def test_options_are_the_attentions_and_not_of_what_stands_in_for_it() -> None:
    block = Decoder(D, H, attention=WINDOW, attention_options={"reach": 2})
    assert block.self_attention.reach == 2
    assert not hasattr(block.cross_attention, "reach")


@pytest.mark.parametrize("name", [name for name in BLOCK_OF_EACH_KIND if name.startswith("decoder.")])
@pytest.mark.parametrize("mask", ["none", "padding"])
def test_a_decoder_has_a_source_of_as_many_tokens_where_none_is_named(name: str, mask: str) -> None:
    case = Case(
        name, 10, D, H, batch_size=2, mask=mask, padding_fraction=0.5 if mask == "padding" else 0.0, mode="train"
    )
    work = build(case, seed=0)
    assert work.source is not None
    assert work.source.shape == (2, 10, D)
    assert verify(case, seed=0)["gradient_error"] < 1e-5
