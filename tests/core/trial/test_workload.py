"""Masks and sources as a layer is given them."""

import pytest
import torch
from torch import Tensor, nn

from harness.core.model.sequence_lengths import real_lengths
from harness.core.model.sweep_axes import Case
from harness.core.trial.workload import counted_tokens, forward_keywords, real_tokens


class Told(nn.Module):
    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        return x


class Masked(nn.Module):
    def forward(self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None) -> Tensor:
        return x


class Recurrent(nn.Module):
    causal = True

    def forward(self, x: Tensor) -> Tensor:
        return x


@pytest.mark.parametrize(
    ("batch", "padding", "lengths"),
    [
        (1, 0.25, [75]),
        (1, 0.999, [1]),
        (3, 0.0, [100, 100, 100]),
        (3, 0.25, [50, 75, 100]),
        (5, 0.5, [1, 25, 50, 75, 100]),
    ],
)
def test_the_real_tokens_of_a_batch_are_spread_evenly(batch: int, padding: float, lengths: list[int]) -> None:
    case = Case("own:Layer", 100, 4, 1, batch_size=batch, mask="padding", padding_fraction=padding)
    assert real_lengths(case, 100) == lengths


def test_real_tokens_come_first() -> None:
    case = Case("own:Layer", 4, 4, 1, batch_size=2, mask="padding", padding_fraction=0.25)
    assert real_tokens(case, 4).tolist() == [[True, True, False, False], [True] * 4]


def test_a_causal_mask_is_a_flag_where_there_is_one_and_else_a_tensor() -> None:
    case = Case("own:Layer", 3, 4, 1, mask="causal")
    assert forward_keywords(Told(), case, None) == {"is_causal": True}
    mask = forward_keywords(Masked(), case, None)["attn_mask"]
    assert mask.tolist() == [[[[True, False, False], [True, True, False], [True, True, True]]]]


def test_a_padding_mask_tells_which_keys_are_real_for_every_query() -> None:
    case = Case("own:Layer", 4, 4, 1, mask="padding", padding_fraction=0.5)
    assert forward_keywords(Told(), case, None)["attn_mask"].tolist() == [[[[True, True, False, False]]]]


def test_padding_is_of_the_source_where_there_is_one_and_then_every_output_counts() -> None:
    case = Case("own:Layer", 4, 4, 1, mask="padding", padding_fraction=0.5, kv_len=2)
    source = torch.zeros(1, 2, 4)
    told = forward_keywords(Masked(), case, source)
    assert told["attn_mask"].tolist() == [[[[True, False]]]]
    assert told["source"] is source
    assert counted_tokens(Masked(), case) is None


def test_outputs_of_padding_do_not_count() -> None:
    case = Case("own:Layer", 4, 4, 1, mask="padding", padding_fraction=0.5)
    real = counted_tokens(Masked(), case)
    assert real is not None
    assert real.tolist() == [[[True], [True], [False], [False]]]
    assert counted_tokens(Masked(), Case("own:Layer", 4, 4, 1)) is None


def test_a_layer_that_is_causal_by_nature_is_told_nothing() -> None:
    for mask in ("none", "causal", "padding"):
        assert forward_keywords(Recurrent(), Case("own:Layer", 4, 4, 1, mask=mask), None) == {}
