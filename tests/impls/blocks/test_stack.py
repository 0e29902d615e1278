"""Six encoder blocks in a row: one after another, and no more than that."""

import pytest
import torch
from torch import Tensor, nn

from harness.core.layers.layer_lookup import claims_of_impl
from harness.core.model.sweep_axes import Case
from harness.core.trial.call_memory import allocator_peak
from harness.core.trial.workload import build
from impls.blocks import blocks
from impls.blocks.blocks import CausalEncoder, Encoder, sinusoids
from impls.blocks.entries import STACKS
from impls.blocks.reference import EncoderStackReference
from impls.blocks.stack import EncoderStack

N, D, H = 9, 24, 4
FUSED = "impls.attention.fused:FusedAttention"
NAMES = [stack.name for stack in STACKS]


def tokens() -> Tensor:
    return torch.randn(2, N, D, dtype=torch.float64)


def test_there_is_one_for_each_order_of_memory() -> None:
    assert NAMES == ["encoder6.packed", "encoder6.fused", "encoder6.linear.parallel"]


@pytest.mark.parametrize("mask", [{}, {"is_causal": True}, {"attn_mask": torch.arange(N) < 6}], ids=str)
def test_each_layer_takes_what_the_one_before_has_made_and_only_the_first_adds_positions(mask: dict) -> None:
    mask = {name: value[None, None, None] if isinstance(value, Tensor) else value for name, value in mask.items()}
    stack, x = EncoderStack(D, H, attention=FUSED).double(), tokens()
    y = x + sinusoids(N, x)
    for layer in stack.layers:
        alone = Encoder(D, H, attention=FUSED, adds_positions=False).double()
        alone.load_state_dict(layer.state_dict())
        y = alone(y, **mask)
    torch.testing.assert_close(stack(x, **mask), y)


@torch.no_grad()
def test_a_later_layer_of_a_causal_stack_decodes_without_positions_too() -> None:
    layer, x = CausalEncoder(D, H, attention=FUSED, adds_positions=False).double(), tokens()
    state = layer.prefill(x[:, : N - 1], layer.start(2, N))
    torch.testing.assert_close(layer.step(x[:, N - 1], state)[0], layer(x)[:, N - 1])


def test_it_is_torchs_own_stack_of_tokens_at_their_positions() -> None:
    stack, x = EncoderStack(D, H, attention=FUSED).double(), tokens()
    layer = nn.TransformerEncoderLayer(D, H, 4 * D, dropout=0.0, batch_first=True, dtype=torch.float64)
    theirs = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    names = {"self_attention.": "self_attn.", "feed_forward.": ""}
    state = {}
    for name, value in stack.state_dict().items():
        for ours, torchs in names.items():
            name = name.replace(ours, torchs)
        state[name] = value
    theirs.load_state_dict(state)
    torch.testing.assert_close(stack(x), theirs(x + sinusoids(N, x)))


def test_every_layer_has_weights_of_its_own() -> None:
    stack = EncoderStack(D, H)
    assert len({weight.data_ptr() for weight in stack.parameters()}) == 6 * len(list(Encoder(D, H).parameters()))


@pytest.mark.parametrize("layers", [1, 2])
def test_it_may_have_other_than_six_layers_and_so_its_reference(layers: int) -> None:
    stack, reference = EncoderStack(D, H, layers=layers).double(), EncoderStackReference(D, H, layers=layers).double()
    reference.load_state_dict(stack.state_dict())
    x = tokens()
    torch.testing.assert_close(stack(x), reference(x))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("claim", ["work", "work_train"])
def test_its_work_is_six_times_that_of_one_block(name: str, claim: str) -> None:
    one = claims_of_impl(name.replace("encoder6", "encoder"))
    assert claims_of_impl(name)[claim](n=7, d=16, h=4) == 6 * one[claim](n=7, d=16, h=4)


@pytest.mark.parametrize("name", NAMES)
def test_in_a_forward_pass_the_next_layer_uses_the_memory_that_one_has_freed(name: str) -> None:
    works = [build(Case(impl, 64, 8, 2), seed=0) for impl in (name, name.replace("encoder6", "encoder"))]
    of_stack, of_one = (allocator_peak(work.call, "cpu")[0] for work in works)
    given = 4 * 64 * 8  # what a layer is given by the one before it
    assert of_one <= of_stack <= of_one + given


def test_one_mask_serves_all_layers() -> None:
    work = build(Case("encoder6.packed", N, D, H, mask="causal"), seed=0)
    assert {tuple(constant.shape) for constant in work.constants} == {(N, D), (1, 1, N, N)}
    assert len({constant.data_ptr() for constant in work.constants}) == 2


@pytest.mark.parametrize("name", NAMES)
def test_neither_positions_nor_masks_are_made_in_the_measured_call(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work = build(Case(name, N, D, H, mask="causal"), seed=0)

    def made(*_: object, **__: object) -> None:
        raise AssertionError("made on the clock")

    monkeypatch.setattr(blocks, "sinusoids", made)
    monkeypatch.setattr(blocks, "arguments_for", made)
    assert work.call().shape == (1, N, D)


def test_it_can_be_asked_for_what_the_attention_inside_can() -> None:
    case = Case("encoder6.fused", N, D, H, device="cuda", dtype="float64")
    assert EncoderStack.supports(case) == "no fused attention kernel on CUDA computes in float64"
    assert EncoderStack.supports(Case("encoder6.packed", N, D, H, device="cuda", dtype="float64")) is None
