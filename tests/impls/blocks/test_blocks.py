"""Encoder and decoder blocks: torch's own layers with the positions added, around any rung."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from harness.case import Case
from harness.trial.build import Unsupported, build
from harness.trial.verify import verify
from impls.blocks import causal_encoder, decoder, encoder
from impls.blocks.causal_encoder import CausalEncoder
from impls.blocks.decoder import Decoder
from impls.blocks.encoder import Encoder
from impls.blocks.entries import BLOCKS
from impls.blocks.positions import sinusoids
from impls.blocks.reference import DecoderReference, EncoderReference
from impls.blocks.rung import find, told

D, H = 24, 4
CAUSAL = (
    "impls.attention.linear.recurrent:RecurrentLinearAttention",
    "impls.attention.linear.chunked:ChunkedLinearAttention",
)
RUNGS = ("impls.attention.naive:NaiveAttention", "impls.attention.fused:FusedAttention")
EAGER = [block.name for block in BLOCKS if not block.compiled]
DECODERS = [name for name in EAGER if name.startswith("decoder.")]


@pytest.fixture(autouse=True)
def _gradients_as_before() -> Iterator[None]:
    torch.set_grad_enabled(True)
    torch.set_num_threads(1)  # for sizes such as these, more only wait for one another
    yield
    torch.set_grad_enabled(True)


def drawn(block: nn.Module) -> nn.Module:
    """The block with random weights, norms included, in float64."""
    torch.manual_seed(0)
    block = block.double()
    for weight in block.parameters():
        nn.init.normal_(weight, std=0.3)
    return block


def tokens(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def with_names_of_torch(block: nn.Module) -> dict[str, Tensor]:
    names = {"self_attention.": "self_attn.", "cross_attention.": "multihead_attn.", "feed_forward.": ""}
    state = {}
    for name, value in block.state_dict().items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        state[name] = value
    return state


def torchs(kind: type[nn.Module], block: nn.Module) -> nn.Module:
    theirs = kind(D, H, dim_feedforward=4 * D, dropout=0.0, batch_first=True, dtype=torch.float64)
    theirs.load_state_dict(with_names_of_torch(block))
    return theirs


def told_causal(block: nn.Module, x: Tensor) -> dict:
    return told(block.self_attention, x, is_causal=True)


def later(n: int) -> Tensor:
    return torch.ones(n, n, dtype=torch.bool).triu(1)


@pytest.mark.parametrize("rung", RUNGS)
class TestAnEncoderIsTorchsOwnLayerOfTokensAtTheirPositions:
    def test_of_all_tokens(self, rung: str) -> None:
        block = drawn(Encoder(D, H, attention=rung))
        x = tokens(2, 9, D)
        theirs = torchs(nn.TransformerEncoderLayer, block)(x + sinusoids(9, x))
        torch.testing.assert_close(block(x), theirs)

    def test_under_a_padding_mask(self, rung: str) -> None:
        block = drawn(Encoder(D, H, attention=rung))
        x, real = tokens(2, 9, D), torch.arange(9) < torch.tensor([[9], [4]])
        theirs = torchs(nn.TransformerEncoderLayer, block)(x + sinusoids(9, x), src_key_padding_mask=~real)
        torch.testing.assert_close(block(x, attn_mask=real[:, None, None])[real], theirs[real])

    def test_under_a_causal_mask(self, rung: str) -> None:
        block = drawn(Encoder(D, H, attention=rung))
        x = tokens(2, 9, D)
        theirs = torchs(nn.TransformerEncoderLayer, block)(x + sinusoids(9, x), src_mask=later(9))
        torch.testing.assert_close(block(x, is_causal=True), theirs)

    def test_under_both(self, rung: str) -> None:
        block = drawn(Encoder(D, H, attention=rung))
        x, real = tokens(1, 9, D), torch.arange(9)[None] < 6
        theirs = torchs(nn.TransformerEncoderLayer, block)(
            x + sinusoids(9, x), src_mask=later(9), src_key_padding_mask=~real
        )
        torch.testing.assert_close(block(x, attn_mask=real[:, None, None], is_causal=True), theirs)


@pytest.mark.parametrize("rung", RUNGS)
class TestADecoderIsTorchsOwnLayerOfTokensAtTheirPositions:
    def test_over_a_source_of_another_length(self, rung: str) -> None:
        block = drawn(Decoder(D, H, attention=rung))
        x, source = tokens(2, 9, D), tokens(2, 5, D)
        theirs = torchs(nn.TransformerDecoderLayer, block)(x + sinusoids(9, x), source, tgt_mask=later(9))
        torch.testing.assert_close(block(x, source), theirs)

    def test_over_a_padded_source(self, rung: str) -> None:
        block = drawn(Decoder(D, H, attention=rung))
        x, source, real = tokens(2, 9, D), tokens(2, 5, D), torch.arange(5) < torch.tensor([[5], [2]])
        theirs = torchs(nn.TransformerDecoderLayer, block)(
            x + sinusoids(9, x), source, tgt_mask=later(9), memory_key_padding_mask=~real
        )
        torch.testing.assert_close(block(x, source, attn_mask=real[:, None, None]), theirs)


def gradients(block: nn.Module, inputs: list[Tensor], **mask: object) -> dict[str, Tensor]:
    """Of every weight and input, and the output itself, by name."""
    leaves = dict(block.named_parameters()) | {f"input {i}": x.clone().requires_grad_() for i, x in enumerate(inputs)}
    y = block(*(leaves[f"input {i}"] for i in range(len(inputs))), **mask)
    found = torch.autograd.grad(y.sin().sum(), leaves.values())
    return dict(zip(leaves, found, strict=True)) | {"output": y}


def test_with_any_weights_an_encoder_and_its_gradients_are_what_its_reference_says() -> None:
    block, reference = drawn(Encoder(D, H)), EncoderReference(D, H).double()
    reference.load_state_dict(block.state_dict())
    inputs, earlier = [tokens(2, 9, D)], ~later(9)[None, None]
    expected = gradients(reference, inputs, attn_mask=earlier)
    torch.testing.assert_close(gradients(block, inputs, is_causal=True), expected)


def test_with_any_weights_a_decoder_and_its_gradients_are_what_its_reference_says() -> None:
    block, reference = drawn(Decoder(D, H)), DecoderReference(D, H).double()
    reference.load_state_dict(block.state_dict())
    inputs = [tokens(2, 9, D), tokens(2, 5, D)]
    torch.testing.assert_close(gradients(block, inputs), gradients(reference, inputs))


def test_gradients_of_a_block_are_those_of_finite_differences() -> None:
    block = drawn(Decoder(4, 2, attention=RUNGS[1]))
    x, source = tokens(1, 3, 4).requires_grad_(), tokens(1, 2, 4).requires_grad_()
    assert torch.autograd.gradcheck(block, (x, source))


@pytest.mark.parametrize("rung", RUNGS)
def test_a_decoder_takes_up_its_text_wherever_it_was_left(rung: str) -> None:
    block = drawn(Decoder(D, H, attention=rung))
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


def test_where_the_rung_cannot_prefill_it_is_led_through_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    block = drawn(Decoder(D, H))
    x, source = tokens(1, 6, D), tokens(1, 4, D)
    with torch.no_grad():
        at_once = block.step(x[:, 5], block.prefill(x[:, :5], block.start(1, 6, source=source)))[0]
        monkeypatch.delattr("impls.attention.layer.Attention.prefill")
        step_by_step = block.step(x[:, 5], block.prefill(x[:, :5], block.start(1, 6, source=source)))[0]
    torch.testing.assert_close(step_by_step, at_once)


def test_what_was_written_is_not_forgotten_over_the_source() -> None:
    block = drawn(Decoder(D, H))
    x, source = tokens(1, 4, D), tokens(1, 5, D)
    before = block(x, source)
    x[:, 0] += 1
    assert not torch.allclose(block(x, source)[:, 3], before[:, 3])
    assert not torch.allclose(block(x, source + 1)[:, 3], block(x, source)[:, 3])


@pytest.mark.parametrize("name", EAGER)
def test_neither_positions_nor_masks_are_made_in_the_measured_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        work = build(Case(name, 12, D, H, mask="causal"), seed=0)
    except Unsupported as reason:
        pytest.skip(str(reason))

    def made(*_: object, **__: object) -> None:
        raise AssertionError("made on the clock")

    for module in (encoder, decoder, causal_encoder):
        monkeypatch.setattr(module, "sinusoids", made)
    for module in (encoder, decoder):
        monkeypatch.setattr(module, "told", made)
    assert work.call().shape == (1, 12, D)


@pytest.mark.parametrize("name", EAGER)
def test_positions_are_no_weights(name: str) -> None:
    try:
        state = build(Case(name, 12, D, H), seed=0).layer.state_dict()
    except Unsupported as reason:
        pytest.skip(str(reason))
    assert all(name.split(".")[-1] in ("weight", "bias") or "attention." in name for name in state)
    assert sum(value.numel() for value in state.values()) > 8 * D * D


def test_an_encoder_does_not_decode() -> None:
    with pytest.raises(Unsupported, match="start and step"):
        build(Case("encoder.naive", 12, D, H, mode="decode"), seed=0)


@pytest.mark.parametrize("rung", [*RUNGS, *CAUSAL])
class TestACausalEncoder:
    def test_is_the_encoder_whose_tokens_see_none_later(self, rung: str) -> None:
        block = drawn(CausalEncoder(D, H, attention=rung))
        x = tokens(2, 9, D)
        whole = block(x)
        for length in (1, 4, 8):
            torch.testing.assert_close(block(x[:, :length]), whole[:, :length])
        x[:, 3] += 1
        assert not torch.allclose(block(x)[:, 8], whole[:, 8])

    def test_takes_up_its_text_wherever_it_was_left(self, rung: str) -> None:
        block = drawn(CausalEncoder(D, H, attention=rung))
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


@pytest.mark.parametrize("rung", RUNGS)
def test_a_causal_encoder_of_softmax_attention_is_torchs_own_layer_under_a_causal_mask(rung: str) -> None:
    block = drawn(CausalEncoder(D, H, attention=rung))
    x = tokens(2, 9, D)
    theirs = torchs(nn.TransformerEncoderLayer, block)(x + sinusoids(9, x), src_mask=later(9))
    torch.testing.assert_close(block(x), theirs)


@pytest.mark.parametrize("rung", [*CAUSAL, "impls.attention.window:WindowAttention"])
def test_where_the_rung_takes_no_source_a_fused_attention_looks_over_it(rung: str) -> None:
    block = drawn(Decoder(D, H, attention=rung))
    assert type(block.self_attention) is find(rung)
    assert type(block.cross_attention) is find(RUNGS[1])
    x, source, real = tokens(2, 9, D), tokens(2, 5, D), torch.arange(5) < torch.tensor([[5], [2]])
    seen = block.norm1(x + sinusoids(9, x) + block.self_attention(x + sinusoids(9, x), **told_causal(block, x)))
    theirs = nn.MultiheadAttention(D, H, batch_first=True, dtype=torch.float64)
    theirs.load_state_dict(block.cross_attention.state_dict())
    over_it = block.norm2(seen + theirs(seen, source, source, key_padding_mask=~real, need_weights=False)[0])
    torch.testing.assert_close(
        block(x, source, attn_mask=real[:, None, None]), block.norm3(over_it + block.feed_forward(over_it))
    )


def test_options_are_the_rungs_and_not_of_what_stands_in_for_it() -> None:
    block = Decoder(D, H, attention="impls.attention.window:WindowAttention", attention_options={"reach": 2})
    assert block.self_attention.reach == 2
    assert not hasattr(block.cross_attention, "reach")


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("mask", ["none", "padding"])
def test_a_decoder_has_a_source_of_as_many_tokens_where_none_is_named(name: str, mask: str) -> None:
    case = Case(name, 10, D, H, batch_size=2, mask=mask, real_share=0.5 if mask == "padding" else 1.0, mode="train")
    try:
        work = build(case, seed=0)
    except Unsupported as reason:
        pytest.skip(str(reason))
    assert work.source is not None
    assert work.source.shape == (2, 10, D)
    assert verify(case, seed=0)["gradient_error"] < 1e-5


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
        ({"mask": "padding", "real_share": 0.5}, "the attention inside takes no attn_mask"),
        ({}, None),
    ],
)
def test_what_the_attention_inside_cannot_the_block_cannot(
    change: dict, reason: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoder, "inside", lambda case: Refuses)
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
    monkeypatch.setattr(decoder, "inside", lambda case: Refuses)
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


@pytest.mark.parametrize("rung", [OverASource, CausalOverASource])
def test_a_padded_source_is_refused_where_the_rung_cannot_be_told_of_padding(
    rung: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder, "inside", lambda case: rung)
    case = Case("decoder.naive", 8, D, H)
    assert Decoder.supports(case) is None
    padded = replace(case, mask="padding", real_share=0.5)
    reason = "the attention inside takes a source, and no attn_mask to hide its padding with"
    assert Decoder.supports(padded) == reason
    assert Decoder.supports(replace(padded, source_len=5)) == reason
    with pytest.raises(Unsupported, match=reason):
        build(padded, seed=0)


@pytest.mark.parametrize("name", [name for name in EAGER if name.startswith("encoder.linear.")])
@pytest.mark.parametrize(
    ("change", "reason"),
    [({}, None), ({"real_share": 0.5, "mask": "padding"}, None), ({"source_len": 5}, "takes no source")],
)
def test_an_encoder_around_linear_attention_takes_padding_and_no_source(
    name: str, change: dict, reason: str | None
) -> None:
    case = Case(name, 8, D, H, **change)
    if reason is None:
        verify(case, seed=0)
    else:
        with pytest.raises(Unsupported, match=reason):
            build(case, seed=0)
