"""A layer that sees what its mask hides is wrong, though it agree with itself."""

import pytest
import torch
from torch import Tensor, nn

from harness.core.model.sweep_axes import Case
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.verify import verify
from impls.attention.plain import PackedAttention


class Ignores(nn.Module):
    """It takes masks and uses none."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        return self.proj(x + x.mean(dim=1, keepdim=True))


class Liar(Ignores):
    """It says that it is causal."""

    causal = True

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)


class IgnoresAfterANorm(Ignores):
    """A change that is the same in all channels of a token is none to it."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        return super().forward(nn.functional.layer_norm(x, x.shape[-1:]))


class SeesItsTile(Ignores):
    """Tokens see all of their tile of six, the later ones too."""

    def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
        tiles = x.unflatten(1, (-1, 6))
        return self.proj((tiles + tiles.mean(2, keepdim=True)).flatten(1, 2))


class FillsThePadding(PackedAttention):
    """Outputs of padding are no numbers; all others are right."""

    reference = "attention.packed"

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        y = super().forward(x, attn_mask)
        return y if attn_mask is None else torch.where(attn_mask[:, 0, 0, :, None], y, torch.nan)


class ReplacesTheLastToken(PackedAttention):
    reference = "attention.packed"

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        y = super().forward(x, attn_mask)
        return torch.cat((y[:, :-1], y[:, -2:-1]), dim=1)


class SeesTheLast(PackedAttention):
    """The last token but one sees the last."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        y = super().forward(x, attn_mask)
        return torch.cat((y[:, :-2], y[:, -2:-1] + x[:, -1:], y[:, -1:]), dim=1)


class SeesTheNext(PackedAttention):
    """The first token sees the second."""

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        y = super().forward(x, attn_mask)
        return torch.cat((y[:, :1] + x[:, 1:2], y[:, 1:]), dim=1)


class SeesTheNextTile(Ignores):
    """The last token of a tile of 32 sees the token after it, which is in the next tile."""

    def forward(self, x: Tensor, is_causal: bool = False) -> Tensor:
        y, last = self.proj(x), torch.arange(31, x.shape[1] - 1, 32)
        return y.index_add(1, last, x[:, last + 1])


class ChangesFromCallToCall(Ignores):
    """The outputs of every other call are larger by one half."""

    calls = 0

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        self.calls += 1
        return self.proj(x) + self.calls % 2 / 2


class _UsedUp(torch.autograd.Function):
    """Its backward pass is right once."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        ctx.save_for_backward(scale := torch.full((), 2.0, dtype=x.dtype))
        return x * scale

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        (scale,) = ctx.saved_tensors
        result = gradient * scale
        scale.data.zero_()
        return result


class GoesBackOnce(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return _UsedUp.apply(self.proj(x))


def verified(layer: type, monkeypatch: pytest.MonkeyPatch, n: int = 12, **asked: object) -> dict:
    monkeypatch.setattr("harness.core.trial.workload.layer_lookup.load_class", lambda name: layer)
    monkeypatch.setattr("harness.core.trial.verify.layer_lookup.load_class", lambda name: layer)
    if not hasattr(layer, "reference"):
        monkeypatch.setattr("harness.core.trial.verify.layer_lookup.load_reference", lambda name: None)
    heads = 2 if issubclass(layer, PackedAttention) else 1
    return verify(Case("attention.packed", n, 8, heads, **asked), seed=0)


@pytest.mark.parametrize("layer", [Ignores, Liar, IgnoresAfterANorm, SeesItsTile, SeesTheLast, SeesTheNext])
def test_one_that_sees_later_tokens_is_wrong(layer: type, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongResult, match="it sees later tokens that the mask hides: its output is off by"):
        verified(layer, monkeypatch, mask="causal")


@pytest.mark.parametrize("n", [96, 100, 256])
def test_one_that_sees_the_next_tile_is_wrong(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongResult, match="it sees later tokens that the mask hides"):
        verified(SeesTheNextTile, monkeypatch, n, mask="causal")


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_one_that_changes_from_call_to_call_is_not_said_to_see_too_much(
    mask: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WrongResult, match=r"^with the same input again, its output is off by"):
        verified(ChangesFromCallToCall, monkeypatch, mask=mask)


def test_one_that_calls_itself_causal_sees_no_later_token_without_a_mask_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(WrongResult, match="it sees later tokens"):
        verified(Liar, monkeypatch)


@pytest.mark.parametrize("layer", [Ignores, Liar, IgnoresAfterANorm])
def test_one_that_sees_padding_is_wrong(layer: type, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongResult, match="it sees padding that the mask hides: its output is off by"):
        verified(layer, monkeypatch, mask="padding", padding_fraction=0.5)


def test_without_a_mask_there_is_nothing_to_see_too_much_of(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verified(Ignores, monkeypatch)["output_error"] < 1e-6


def test_what_comes_out_of_padding_is_anybodys_even_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verified(FillsThePadding, monkeypatch, mask="padding", padding_fraction=0.5)["output_error"] < 1e-6


def test_half_precision_does_not_round_a_wrong_token_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(WrongResult, match="output is off by"):
        verified(ReplacesTheLastToken, monkeypatch, dtype="bfloat16")


def test_a_backward_pass_that_is_right_only_once_is_wrong_where_it_is_timed_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(WrongResult, match="in a repeated backward pass is off by"):
        verified(GoesBackOnce, monkeypatch, mode="backward")
    assert verified(GoesBackOnce, monkeypatch, mode="train")["output_error"] < 1e-6
