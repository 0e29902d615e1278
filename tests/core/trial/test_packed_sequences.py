"""Functions of packed sequences: they are found by their parameters, and get the tokens of unequal lengths."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.core.layers import layer_lookup
from harness.core.model.case_grid import collapsed
from harness.core.model.sweep_axes import Case
from harness.core.trial.accuracy import measure_accuracy
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.layer_protocol import unsupported_reason
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.verify import verify
from harness.core.trial.workload import build

FILE = Path(__file__).parent / "packed.py"
FUNCTIONS = Path(__file__).parents[2] / "own_layer" / "functions.py"


def case_of(name: str, **given: Any) -> Case:
    case = Case(name if "." in name else f"{FILE}:{name}", 24, 16, 4, batch_size=3, lengths="zipf")
    return collapsed(replace(case, **given), lambda _: True)


@pytest.mark.parametrize("lengths", ["equal", "zipf"])
@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
def test_packed_attention_is_that_of_each_sequence_alone(mode: str, mask: str, lengths: str) -> None:
    found = verify(case_of("varlen", mode=mode, mask=mask, lengths=lengths), seed=0)
    assert (found["against"], found["output_error"] < 1e-6) == ("softmax_attention", True)


@pytest.fixture
def with_an_empty_one(tmp_path: Path) -> str:
    """A file of lengths, of which the last of five is 0."""
    (tmp_path / "lengths.txt").write_text("8\n24\n3\n12\n0\n")
    return str(tmp_path / "lengths.txt")


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize(
    "name",
    [
        *("varlen", "sdpa.varlen", "sdpa.document_mask", "sdpa.naive", "rnn.torch", "encoder.naive"),
        *("attention.fused", "attention.single", "attention.naive", "attention.packed", "attention.chunked"),
        *("attention.module", "attention.module.weights", "attention.window.global", "attention.block_sparse"),
        *("attention.latent", "attention.linear.parallel"),
    ],
)
def test_a_batch_with_an_empty_sequence_is_verified(name: str, mode: str, with_an_empty_one: str) -> None:
    case = case_of(name, mode=mode, lengths=with_an_empty_one, batch_size=5)
    for each in (case, case.small()):
        assert verify(each, seed=0)["output_error"] < 1e-6
    if name == "varlen":
        facts = collect_metrics(case, seed=0)
        pairs = 8**2 + 24**2 + 3**2 + 12**2
        assert facts["flops"] == facts["flops_claimed"] == (4 if mode == "forward" else 14) * pairs * 16
        assert (facts["real_tokens"], facts["sequence_lengths"]) == (47, "8,24,3,12,0")


def test_a_layer_that_fails_on_an_empty_sequence_is_incorrect(with_an_empty_one: str) -> None:
    case = case_of("stops_at_empty", lengths=with_an_empty_one, batch_size=5)
    with pytest.raises(WrongResult, match="compared with softmax attention"):
        verify(case.small(), seed=0)
    verify(replace(case, lengths="zipf"), seed=0)


def test_a_gradient_of_a_softmax_over_no_key_is_found(with_an_empty_one: str) -> None:
    case = case_of("WithInfinity", mode="train", lengths=with_an_empty_one, batch_size=5)
    with pytest.raises(WrongResult, match="gradient of input is not finite"):
        verify(case, seed=0)


def test_a_packed_function_gets_real_tokens_only() -> None:
    inputs = build(case_of("varlen", num_kv_heads=2), seed=0).inputs
    assert [tuple(one.shape) for one in inputs] == [(44, 4, 4), (44, 2, 4), (44, 2, 4), (4,), (4,)]
    assert sorted(inputs[3].diff().tolist()) == [8, 12, 24]
    assert inputs[3].dtype == torch.int32


def test_parameters_of_other_names_and_a_reference_for_one_sequence_are_found() -> None:
    assert verify(case_of("by_other_names", mode="train"), seed=0)["against"] == "_plain"


@pytest.mark.parametrize("name", ["optional", "under_own_names"])
def test_packed_sequences_may_be_declared(name: str) -> None:
    assert verify(case_of(name), seed=0)["against"] == "softmax_attention"


def test_packed_sequences_without_their_first_tokens_are_refused() -> None:
    with pytest.raises(TypeError, match="packed sequences need a parameter cu_seqlens"):
        layer_lookup.load_class(case_of("without_starts").impl)


def test_a_function_whose_sequences_see_each_other_is_incorrect() -> None:
    with pytest.raises(WrongResult, match="compared with softmax attention"):
        verify(case_of("sees_all"), seed=0)


def test_described_inputs_may_be_all_tokens_their_lengths_and_where_each_sequence_begins() -> None:
    assert verify(case_of("described", mode="train"), seed=0)["against"] == "itself in float64"


# Σ nᵢ² of (24, 12, 8).
_SQUARES = 24**2 + 12**2 + 8**2


@pytest.mark.parametrize(("mode", "factor"), [("forward", 4), ("train", 14), ("backward", 10)])
def test_flops_of_packed_sequences_are_the_claim_summed_over_them(mode: str, factor: int) -> None:
    facts = collect_metrics(case_of("varlen", mode=mode), 0, measure_accuracy)
    assert facts["flops"] == facts["flops_claimed"] == factor * _SQUARES * 16
    assert [facts[name] for name in ("lengths_as", "real_tokens", "padding_share")] == ["packed", 44, 0.0]
    assert sorted(map(int, facts["sequence_lengths"].split(","))) == [8, 12, 24]
    assert (facts["facts_unknown"], facts["accuracy_by"]) == ([], "all tokens, softmax_attention")


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize("mode", ["forward", "train"])
def test_errors_at_the_timed_size_are_those_of_64_tokens_of_any_sequences(mode: str, mask: str) -> None:
    facts = collect_metrics(case_of("varlen", seq_len=70, mode=mode, mask=mask, num_kv_heads=2), 0, measure_accuracy)
    assert (facts["facts_unknown"], facts["accuracy_by"]) == ([], "64 rows, softmax_attention")
    assert facts["output_error"] < 1e-6
    assert 0.5 < facts["error_ratio"] < 2


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("mask", ["none", "causal"])
def test_a_reference_for_one_sequence_computes_the_rows_of_each(mode: str, mask: str) -> None:
    case = case_of("near", seq_len=70, mode=mode, mask=mask, options="window=4")
    facts = collect_metrics(case, 0, measure_accuracy)
    assert (facts["facts_unknown"], facts["accuracy_by"]) == ([], "64 rows, _near")
    assert 0 < facts["output_error"] < 1e-6
    with pytest.raises(WrongResult, match=r"at n = 70 \(64 rows\)"):
        collect_metrics(case_of("forgets_its_window", seq_len=70), 0, measure_accuracy)


@pytest.mark.parametrize("seq_len", [24, 70])
def test_a_reference_for_one_sequence_gets_a_mask_of_its_length(seq_len: int) -> None:
    case = case_of("has_a_masked_reference", seq_len=seq_len, mask="causal")
    assert verify(case, seed=0)["output_error"] < 1e-6
    assert collect_metrics(case, 0, measure_accuracy)["output_error"] < 1e-6


def test_tokens_that_are_wrong_at_the_timed_size_alone_are_found() -> None:
    case = case_of("forgets_the_end", seq_len=400)
    verify(case.small(), seed=0)
    with pytest.raises(WrongResult, match=r"at n = 400 \(64 rows\)"):
        collect_metrics(case, 0, measure_accuracy)


@pytest.mark.parametrize("mask", ["none", "causal"])
def test_a_layer_gets_a_padded_batch_whose_work_is_that_of_n_tokens(mask: str) -> None:
    case = case_of("attention.fused", mask=mask, mode="train")
    verify(case, seed=0)
    torch.set_grad_enabled(True)
    facts = collect_metrics(case, 0, measure_accuracy)
    assert facts["flops_full"] == facts["flops_claimed"] == 3 * (24 * 24 * 16**2 + 14 * 24**2 * 16)
    assert (facts["lengths_as"], facts["real_tokens"]) == ("padded", 44)
    assert facts["padding_share"] == pytest.approx(1 - 44 / 72)
    assert facts["output_error"] < 1e-6


def test_a_batch_of_equal_lengths_has_no_facts_of_lengths() -> None:
    facts = collect_metrics(case_of("rnn.elman", lengths="equal", num_heads=1), 0)
    assert facts["lengths_as"] is facts["real_tokens"] is facts["sequence_lengths"] is None


@pytest.mark.parametrize(
    ("name", "given", "reason"),
    [
        ("varlen", {"mode": "decode"}, "it takes packed sequences as a whole, and decodes no token"),
        ("varlen", {"kv_len": 5}, "packed sequences attend to themselves, and not to a source: leave kv_len out"),
        ("sees_all", {"mask": "causal"}, "it takes neither is_causal nor attn_mask, and it has no causal"),
        ("no_batch", {}, "its inputs have no batch of sequences: describe them with b and n, or with t for all tokens"),
        ("rnn.gru", {"mode": "decode"}, "its step decodes sequences of one length: give lengths=equal"),
        ("attention.fused", {"kv_len": 5}, "its source has sequences of one length: give lengths=equal"),
    ],
)
def test_what_cannot_take_unequal_lengths_is_refused_in_one_sentence(name: str, given: Any, reason: str) -> None:
    case = case_of(name, **given)
    found = unsupported_reason(layer_lookup.load_class(case.impl), case)
    assert found is not None
    assert found.startswith(reason)


def test_a_function_that_takes_a_mask_decodes_against_caches_of_unequal_lengths() -> None:
    case = replace(case_of("varlen", mode="decode"), impl=f"{FUNCTIONS}:grouped")
    assert verify(case, seed=0)["against"] == "softmax_attention"
    refused = unsupported_reason(layer_lookup.load_class(f"{FUNCTIONS}:attention"), case)
    assert refused == "it takes no attn_mask, to hide the padding with"
