"""Decoder blocks: torch's own layer with the positions added, around any attention, continued from any position."""

import pytest
import torch
from blocks.parts import ATTENTIONS, FUSED, D, H, drawn, gradients, later, tokens, torchs
from torch import nn

from impls.blocks.blocks import Decoder, sinusoids
from impls.blocks.reference import DecoderReference


@pytest.mark.parametrize("attention", ATTENTIONS)
class TestADecoderIsTorchsOwnLayerOfTokensAtTheirPositions:
    def test_over_a_source_of_another_length(self, attention: str) -> None:
        block = drawn(Decoder(D, H, attention=attention))
        x, source = tokens(2, 9, D), tokens(2, 5, D)
        theirs = torchs(nn.TransformerDecoderLayer, block)(x + sinusoids(9, x), source, tgt_mask=later(9))
        torch.testing.assert_close(block(x, source), theirs)

    def test_over_a_padded_source(self, attention: str) -> None:
        block = drawn(Decoder(D, H, attention=attention))
        x, source, real = tokens(2, 9, D), tokens(2, 5, D), torch.arange(5) < torch.tensor([[5], [2]])
        theirs = torchs(nn.TransformerDecoderLayer, block)(
            x + sinusoids(9, x), source, tgt_mask=later(9), memory_key_padding_mask=~real
        )
        torch.testing.assert_close(block(x, source, attn_mask=real[:, None, None]), theirs)


def test_with_any_weights_a_decoder_and_its_gradients_are_what_its_reference_says() -> None:
    block, reference = drawn(Decoder(D, H)), DecoderReference(D, H).double()
    reference.load_state_dict(block.state_dict())
    inputs = [tokens(2, 9, D), tokens(2, 5, D)]
    torch.testing.assert_close(gradients(block, inputs), gradients(reference, inputs))


def test_gradients_of_a_block_are_those_of_finite_differences() -> None:
    block = drawn(Decoder(4, 2, attention=FUSED))
    x, source = tokens(1, 3, 4).requires_grad_(), tokens(1, 2, 4).requires_grad_()
    assert torch.autograd.gradcheck(block, (x, source))


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_a_decoder_takes_up_its_text_wherever_it_was_left(attention: str) -> None:
    block = drawn(Decoder(D, H, attention=attention))
    x, source = tokens(2, 9, D), tokens(2, 5, D)
    with torch.no_grad():
        expected = block(x, source)
        for taken_in in (0, 1, 6):
            state = block.start(2, 9, source=source)
            if taken_in:
                state = block.prefill(x[:, :taken_in], state)
            for t in range(taken_in, 9):
                y_t, state = block.step(x[:, t], state)
                torch.testing.assert_close(y_t, expected[:, t])


def test_where_the_attention_cannot_prefill_it_is_led_through_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    block = drawn(Decoder(D, H))
    x, source = tokens(1, 6, D), tokens(1, 4, D)
    with torch.no_grad():
        at_once = block.step(x[:, 5], block.prefill(x[:, :5], block.start(1, 6, source=source)))[0]
        monkeypatch.delattr("impls.attention.plain.Attention.prefill")
        step_by_step = block.step(x[:, 5], block.prefill(x[:, :5], block.start(1, 6, source=source)))[0]
    torch.testing.assert_close(step_by_step, at_once)


def test_what_was_written_is_not_forgotten_over_the_source() -> None:
    block = drawn(Decoder(D, H))
    x, source = tokens(1, 4, D), tokens(1, 5, D)
    before = block(x, source)
    x[:, 0] += 1
    assert not torch.allclose(block(x, source)[:, 3], before[:, 3])
    assert not torch.allclose(block(x, source + 1)[:, 3], block(x, source)[:, 3])
