"""Encoder blocks: torch's own layer with the positions added, around any attention, causal where the attention is."""

import pytest
import torch
from blocks.parts import ATTENTIONS, CAUSAL, D, H, drawn, gradients, later, tokens, torchs
from torch import nn

from harness.core.model.sweep_axes import Case
from harness.core.trial.workload import Unsupported, build
from impls.blocks.blocks import CausalEncoder, Encoder, sinusoids
from impls.blocks.reference import EncoderReference


@pytest.mark.parametrize("attention", ATTENTIONS)
class TestAnEncoderIsTorchsOwnLayerOfTokensAtTheirPositions:
    def test_of_all_tokens(self, attention: str) -> None:
        block = drawn(Encoder(D, H, attention=attention))
        x = tokens(2, 9, D)
        theirs = torchs(nn.TransformerEncoderLayer, block)(x + sinusoids(9, x))
        torch.testing.assert_close(block(x), theirs)

    def test_under_a_padding_mask(self, attention: str) -> None:
        block = drawn(Encoder(D, H, attention=attention))
        x, real = tokens(2, 9, D), torch.arange(9) < torch.tensor([[9], [4]])
        theirs = torchs(nn.TransformerEncoderLayer, block)(x + sinusoids(9, x), src_key_padding_mask=~real)
        torch.testing.assert_close(block(x, attn_mask=real[:, None, None])[real], theirs[real])

    def test_under_a_causal_mask(self, attention: str) -> None:
        block = drawn(Encoder(D, H, attention=attention))
        x = tokens(2, 9, D)
        theirs = torchs(nn.TransformerEncoderLayer, block)(x + sinusoids(9, x), src_mask=later(9))
        torch.testing.assert_close(block(x, is_causal=True), theirs)

    def test_under_both(self, attention: str) -> None:
        block = drawn(Encoder(D, H, attention=attention))
        x, real = tokens(1, 9, D), torch.arange(9)[None] < 6
        theirs = torchs(nn.TransformerEncoderLayer, block)(
            x + sinusoids(9, x), src_mask=later(9), src_key_padding_mask=~real
        )
        torch.testing.assert_close(block(x, attn_mask=real[:, None, None], is_causal=True), theirs)


def test_with_any_weights_an_encoder_and_its_gradients_are_what_its_reference_says() -> None:
    block, reference = drawn(Encoder(D, H)), EncoderReference(D, H).double()
    reference.load_state_dict(block.state_dict())
    inputs, earlier = [tokens(2, 9, D)], ~later(9)[None, None]
    expected = gradients(reference, inputs, attn_mask=earlier)
    torch.testing.assert_close(gradients(block, inputs, is_causal=True), expected)


def test_an_encoder_does_not_decode() -> None:
    with pytest.raises(Unsupported, match="start and step"):
        build(Case("encoder.naive", 12, D, H, mode="decode"), seed=0)


@pytest.mark.parametrize("attention", [*ATTENTIONS, *CAUSAL])
class TestACausalEncoder:
    def test_is_the_encoder_whose_tokens_see_none_later(self, attention: str) -> None:
        block = drawn(CausalEncoder(D, H, attention=attention))
        x = tokens(2, 9, D)
        whole = block(x)
        for length in (1, 4, 8):
            torch.testing.assert_close(block(x[:, :length]), whole[:, :length])
        x[:, 3] += 1
        assert not torch.allclose(block(x)[:, 8], whole[:, 8])

    def test_takes_up_its_text_wherever_it_was_left(self, attention: str) -> None:
        block = drawn(CausalEncoder(D, H, attention=attention))
        x = tokens(2, 9, D)
        with torch.no_grad():
            expected = block(x)
            for taken_in in (0, 1, 6):
                state = block.start(2, 9)
                if taken_in:
                    state = block.prefill(x[:, :taken_in], state)
                for t in range(taken_in, 9):
                    y_t, state = block.step(x[:, t], state)
                    torch.testing.assert_close(y_t, expected[:, t])


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_causal_encoder_of_softmax_attention_is_torchs_own_layer_under_a_causal_mask(attention: str) -> None:
    block = drawn(CausalEncoder(D, H, attention=attention))
    x = tokens(2, 9, D)
    theirs = torchs(nn.TransformerEncoderLayer, block)(x + sinusoids(9, x), src_mask=later(9))
    torch.testing.assert_close(block(x), theirs)
