"""Attention over packed sequences, and over a paged cache: exact work, and the same numbers as one by one."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.core.layers import layer_lookup
from harness.core.model.case_grid import collapsed
from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.layer_protocol import unsupported_reason
from harness.core.trial.verify import verify
from harness.core.trial.workload import build
from impls.sdpa.packed import document_mask, flex_document_mask, nested, varlen
from impls.sdpa.paged import paged

# Lengths of zipf for b = 3, and Σ nᵢ².
LENGTHS, SQUARES = [24, 12, 8], 24**2 + 12**2 + 8**2
ANY = {"lengths": "zipf", "batch_size": 3}


def case_of(name: str, **given: Any) -> Case:
    return collapsed(replace(Case(name, 24, 32, 4), **{**ANY, **given}), lambda _: True)


def refused(case: Case) -> str | None:
    return unsupported_reason(layer_lookup.load_class(case.impl), case)


@pytest.mark.parametrize("given", [{}, {"mask": "causal"}, {"num_kv_heads": 2}, {"lengths": "equal"}], ids=str)
@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
@pytest.mark.parametrize("name", ["sdpa.varlen", "sdpa.nested", "sdpa.document_mask"])
def test_packed_attention_is_softmax_attention_of_each_sequence(name: str, mode: str, given: dict[str, Any]) -> None:
    case = case_of(name, mode=mode, dtype="float64", **given)
    if name == "sdpa.nested" and {"mask", "num_kv_heads"} & given.keys():
        assert refused(case) is not None
        return
    found = verify(case, seed=0)
    assert (found["against"], found["output_error"] < 1e-12) == ("softmax_attention", True)


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_nested_tensors_take_no_causal_mask_on_any_device(device: str) -> None:
    assert nested.supports(case_of("sdpa.nested", mask="causal", device=device)) == (
        "nested tensors take no causal mask here"
    )


@pytest.mark.parametrize("function", [nested, document_mask, flex_document_mask])
def test_without_what_prepare_makes_no_sequence_attends_to_another(function: Any) -> None:
    q = torch.randn(6, 2, 4)
    with pytest.raises(AssertionError):
        function(q, q, q, torch.tensor([0, 4, 6], dtype=torch.int32))


@pytest.mark.parametrize("function", [varlen, document_mask])
def test_an_empty_sequence_is_left_out(function: Any) -> None:
    q, starts = torch.randn(6, 2, 4), torch.tensor([0, 4, 4, 6], dtype=torch.int32)
    without = torch.tensor([0, 4, 6], dtype=torch.int32)

    def of(ends: Tensor) -> Tensor:
        prepared = function.prepare(q, q, q, ends) if hasattr(function, "prepare") else {}
        y: Tensor = function(q, q, q, ends, **prepared)
        return y

    torch.testing.assert_close(of(starts), of(without))


@pytest.mark.parametrize(
    ("name", "mode", "flops"),
    [
        ("sdpa.varlen", "forward", 4 * SQUARES * 32),
        ("sdpa.varlen", "train", 14 * SQUARES * 32),
        ("sdpa.document_mask", "forward", 4 * sum(LENGTHS) ** 2 * 32),
        ("sdpa.paged", "decode", 4 * sum(LENGTHS) * 32),
    ],
)
def test_work_is_that_of_real_tokens_to_the_last_digit(name: str, mode: str, flops: int) -> None:
    facts = collect_metrics(case_of(name, mode=mode), 0)
    assert facts["flops"] == flops
    assert facts["flops_claimed"] == (None if name == "sdpa.document_mask" else flops)
    assert (facts["real_tokens"], facts["padding_share"]) == (sum(LENGTHS), 0.0)


def test_what_a_nested_tensor_computes_cannot_be_counted_and_says_so() -> None:
    facts = collect_metrics(case_of("sdpa.nested"), 0)
    assert (facts["flops"], facts["lengths_as"]) == (None, "nested")
    assert "NestedTensor" in facts["facts_unknown"][0]


@pytest.mark.parametrize("page_size", [1, 5, 16, 64])
@pytest.mark.parametrize("given", [{}, {"lengths": "equal"}, {"num_kv_heads": 2}], ids=str)
def test_paged_decoding_is_that_of_a_plain_gather(page_size: int, given: dict[str, Any]) -> None:
    case = case_of("sdpa.paged", mode="decode", dtype="float64", options=f"page_size={page_size}", **given)
    found = verify(case, seed=0)
    assert (found["against"], found["output_error"] < 1e-12) == ("paged_reference", True)


def test_a_block_table_gives_every_sequence_pages_of_its_own() -> None:
    case = case_of("sdpa.paged", mode="decode", options="page_size=5")
    work = build(case, seed=0)
    (table,) = work.constants
    lengths = work.inputs[3].tolist()
    used = [page for row, length in zip(table.tolist(), lengths, strict=True) for page in row[: -(-length // 5)]]
    assert len(used) == len(set(used)) == sum(-(-length // 5) for length in lengths)
    assert 5 * (max(used) + 1) <= len(work.inputs[1])


def test_paged_decoding_reads_the_pages_of_its_table() -> None:
    """The same tokens in other pages give the same output."""
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 2, 1, 4), torch.randn(8, 2, 4), torch.randn(8, 2, 4)
    lengths, order = torch.tensor([7]), torch.tensor([2, 0, 3, 1])
    moved = [torch.empty_like(one).view(4, 2, 2, 4).index_copy_(0, order, one.view(4, 2, 2, 4)) for one in (k, v)]
    straight = paged(q, k, v, lengths, torch.arange(4)[None], page_size=2)
    torch.testing.assert_close(
        paged(q, *(one.flatten(0, 1) for one in moved), lengths, order[None], page_size=2), straight
    )


def test_paged_decoding_is_refused_in_another_mode() -> None:
    assert refused(case_of("sdpa.paged")) == "it decodes one token of each sequence: give mode=decode"
    assert refused(case_of("sdpa.paged", mode="decode", kv_len=5, lengths="equal")) == "its inputs hold no source"


def test_lengths_of_zipf_reach_a_packed_layer_in_their_order() -> None:
    work = build(case_of("sdpa.varlen"), seed=0)
    assert sorted(end - first for first, end in pairwise(work.inputs[3].tolist())) == sorted(LENGTHS)
