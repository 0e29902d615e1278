"""Errors are measured at the size that is timed, beside those of the plain layer in the same dtype."""

from typing import Any

import pytest
import torch
from core.trial.late import SleepingReference
from torch import nn

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.trial import accuracy, verify
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.workload import build


def facts_of(case: Case) -> dict[str, Any]:
    return collect_metrics(case, 0, accuracy.measure_accuracy)


def late(name: str, n: int, **axes) -> Case:
    return Case(f"core.trial.late:{name}", n, 8, 1, **axes)


@pytest.mark.parametrize(
    ("name", "mode", "says"),
    [
        ("LateAttention", "forward", "output is off by"),
        ("LateAttention", "backward", "output is off by"),
        ("ForgetsKeysInTraining", "train", "gradient is off by"),
        ("LateRecurrence", "forward", "output is off by"),
        ("LateRecurrence", "train", "output is off by"),
        ("InFloat32Alone", "forward", "output is off by"),
    ],
)
def test_a_layer_that_is_wrong_beyond_the_verified_size_is_incorrect_at_its_own(
    name: str, mode: str, says: str
) -> None:
    case = late(name, 512, mode=mode)
    verify.verify(case.small(), seed=0)
    torch.set_grad_enabled(True)
    with pytest.raises(WrongResult, match=says):
        facts_of(case)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mode", ["forward", "train", "decode"])
@pytest.mark.parametrize(
    ("impl", "mask", "by"),
    [
        ("attention.fused", "none", "64 rows, AttentionReference"),
        ("attention.naive", "causal", "64 rows, AttentionReference"),
        ("attention.packed", "padding", "64 rows, AttentionReference"),
        ("attention.window", "causal", "64 rows, WindowReference"),
        ("rnn.gru.torch", "none", "all tokens, GRUReference"),
    ],
)
def test_the_errors_are_those_of_rounding(impl: str, mask: str, mode: str, dtype: str, by: str) -> None:
    n = 100 if "rnn" in impl else 300
    if mode == "decode" and mask == "padding":
        mask = "none"
    padding = {"padding_fraction": 0.25} if mask == "padding" else {}
    case = Case(impl, n, 32, 4, 2, mode=mode, dtype=dtype, mask="causal" if mode == "decode" else mask, **padding)
    facts = facts_of(case)
    eps = torch.finfo(getattr(torch, dtype)).eps
    assert facts["accuracy_by"] == (by if mode != "decode" else f"last token, {by.split()[-1]}")
    assert eps / 20 < facts["output_error"] < 10 * eps
    assert facts["output_error"] <= facts["output_error_max"] < 20 * facts["output_error"]
    assert 1 / 8 < facts["error_ratio"] < 8
    if mode == "train":
        assert eps / 20 < facts["gradient_error"] <= facts["gradient_error_max"]


def test_a_gradient_that_the_reference_lacks_is_wrong_at_the_timed_size() -> None:
    with pytest.raises(WrongResult, match="gradient is off by"):
        facts_of(Case("planted:PassesAGradient", 96, 8, 2, mode="train"))


def test_such_a_layer_gets_no_facts_from_a_trial_and_so_no_time(runner: Executor) -> None:
    outcome = runner.run("facts", late("LateRecurrence", 512))
    assert (outcome.status, outcome.reason.partition(" of its norm")[0][:16]) == ("incorrect", "output is off by")
    right = runner.run("facts", Case("rnn.torch", 512, 8, 1))
    assert right.values["accuracy_by"] == "all tokens, ElmanReference"
    assert 1e-4 < right.values["accuracy_s"] < right.wall_s


def test_the_rows_of_a_reference_are_those_of_all_its_outputs() -> None:
    sparse = ("attention.window", "attention.window.global", "attention.block_sparse")
    for impl in (
        *sparse,
        "attention.naive",
        "attention.latent",
        "attention.linear.parallel",
        "sdpa.naive",
        "encoder.naive",
    ):
        case = Case(impl, 24, 16, 2, mask="none" if "linear" in impl else "causal")
        work = build(case, seed=0)
        reference, _ = verify.reference_of(case, work.layer, 0)
        x, rows = work.x.double(), torch.tensor([0, 3, 23])
        seen = torch.ones(24, 24, dtype=torch.bool).tril() if case.mask == "causal" else torch.ones(24, 24) > 0
        got = reference(x, attn_mask=seen[rows][None, None], rows=rows)
        torch.testing.assert_close(got, reference(x, attn_mask=seen[None, None])[:, rows])


def test_a_slow_reference_computes_as_many_tokens_as_verification_or_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accuracy, "_MOST_OPS", 50_000)
    facts = facts_of(late("CausalWithASlowReference", 512))
    assert facts["accuracy_by"] == "first 256 tokens, SlowReference"
    facts = facts_of(late("HasASlowReference", 512))
    assert facts["accuracy_by"] is None
    assert facts["output_error"] is None
    assert "output_error: the float64 reference is too slow at this size" in facts["facts_unknown"]


@pytest.mark.parametrize(("dtype", "most"), [("float32", 0.01), ("bfloat16", 0.1)])
def test_without_a_plain_layer_one_limit_holds_for_each_dtype(dtype: str, most: float) -> None:
    case = Case("rnn.elman", 512, 8, 1, dtype=dtype)
    accuracy._judge([0.9 * most, 1.0], None, (1e-5, 1e-5), case, "all tokens")
    with pytest.raises(WrongResult, match=f"where at most {most:.1e} is tolerated"):
        accuracy._judge([1.1 * most, 1.0], None, (1e-5, 1e-5), case, "all tokens")


def test_random_numbers_are_the_reason_where_a_layer_that_draws_them_cannot_be_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accuracy, "_MOST_OPS", 50_000)
    facts = facts_of(late("DrawsRandomNumbers", 512))
    assert facts["accuracy_by"] is None
    slow = "the float64 reference is too slow at this size"
    reason = f"output_error: {slow}, and the layer draws other random numbers for its first tokens alone"
    assert reason in facts["facts_unknown"]


def test_a_reference_that_is_too_slow_for_a_few_tokens_is_given_up_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "_MOST_S", 0.05)
    monkeypatch.setattr(SleepingReference, "calls", 0)
    facts = facts_of(late("HasASleepingReference", 512))
    assert SleepingReference.calls == 1
    assert "output_error: the float64 reference is too slow at this size: more than 0.05 s" in facts["facts_unknown"]


@pytest.mark.parametrize("mode", ["forward", "train"])
def test_of_a_causal_function_with_a_slow_reference_the_first_tokens_are_compared(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "_MOST_OPS", 1_500 if mode == "forward" else 4_500)
    facts = facts_of(late("causal_sum", 512, mode=mode))
    assert facts["accuracy_by"] == "first 256 tokens, slow_sum"
    assert 0 < facts["output_error"] < 1e-5
    assert (facts["gradient_error"] is None) == (mode == "forward")
    with pytest.raises(WrongResult, match=r"output is off by .* \(first 256 tokens\)"):
        facts_of(late("late_sum", 512, mode=mode))


def test_the_counts_of_a_reference_decide_and_not_those_of_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    assert facts_of(late("causal_sum_of_pairs", 512))["accuracy_by"] == "all tokens, dear_sum"
    monkeypatch.setattr(accuracy, "_MOST_FLOPS", 2e7)
    assert facts_of(late("causal_sum_of_pairs", 512))["accuracy_by"] == "first 256 tokens, dear_sum"


@pytest.mark.parametrize("mode", ["forward", "train"])
def test_beyond_them_the_last_tokens_are_computed_from_a_state_in_float64(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accuracy, "_MOST_OPS", 50_000 if mode == "forward" else 150_000)
    facts = facts_of(late("WithAState", 512, mode=mode))
    assert facts["accuracy_by"] == "first 256 tokens and the last 16, SlowReference"
    assert 0 < facts["output_error"] < 1e-6
    with pytest.raises(WrongResult, match=r"output is off by .* \(first 256 tokens and the last 16\)"):
        facts_of(late("LateWithAState", 512, mode=mode))


def test_without_such_a_state_the_first_tokens_are_judged_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy, "_MOST_OPS", 50_000)
    facts = facts_of(late("WithoutAStateInFloat64", 512))
    assert facts["accuracy_by"] == "first 256 tokens, SlowReference"
    fails = "output_error of the last 16 tokens: prefill or step fails: ValueError: no float64 kernel"
    assert facts["facts_unknown"] == [fails]
    with pytest.raises(WrongResult, match=r"output is off by .* \(first 256 tokens\)"):
        facts_of(late("EarlyWithoutAStateInFloat64", 512))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mask", ["none", "causal"])
def test_a_reference_of_rows_gets_their_rows_of_a_mask_and_may_refuse_the_dtype(mask: str, dtype: str) -> None:
    facts = facts_of(late("has_a_masked_reference", 300, mask=mask, dtype=dtype))
    assert (facts["facts_unknown"], facts["accuracy_by"]) == ([], "64 rows, masked")
    assert facts["output_error"] < (1e-6 if dtype == "float32" else 1e-2)
    assert (facts["error_ratio"] is None) == (dtype == "bfloat16")
    with pytest.raises(WrongResult, match=r"output is off by .* \(64 rows\)"):
        facts_of(late("late_in_any_dtype", 300, mask=mask, dtype=dtype))


def test_in_float64_and_without_a_reference_there_is_no_plain_layer() -> None:
    facts = facts_of(Case("attention.fused", 300, 32, 4, dtype="float64"))
    assert facts["output_error"] < 1e-14
    assert facts["error_ratio"] is None
    facts = facts_of(late("Tiles", 288))
    assert (facts["error_ratio"], facts["accuracy_by"]) == (None, "all tokens, itself in float64")


def test_errors_repeat_exactly() -> None:
    case = Case("attention.fused", 300, 32, 4)
    first, second = (facts_of(case) for _ in range(2))
    assert first["output_error"] == second["output_error"]


def test_a_layer_that_rounds_more_than_the_plain_one_has_a_larger_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    from impls.attention.plain import PackedAttention

    exact = PackedAttention.forward

    def rounded(self: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return exact(self, x).bfloat16().float() if x.dtype == torch.float32 else exact(self, x)

    # Three digits less than float32 has: rounded numbers, and a few that are wrong, as of a key that some rows miss.
    for forward in (rounded, lambda self, x: exact(self, x) * (1 + 4e-4)):
        monkeypatch.setattr(PackedAttention, "forward", forward)
        with pytest.raises(WrongResult, match=r"the plain layer is off by"):
            facts_of(Case("attention.packed", 300, 32, 4))
    monkeypatch.setattr(PackedAttention, "forward", lambda self, x: exact(self, x) * (1 + 1e-5))
    facts = facts_of(Case("attention.packed", 300, 32, 4))
    assert facts["error_ratio"] > 20


def test_outliers_are_a_few_large_channels_and_nothing_else_changes() -> None:
    usual = build(Case("attention.fused", 32, 128, 4), seed=0).x
    outliers = build(Case("attention.fused", 32, 128, 4, inputs="outliers"), seed=0).x
    factors = outliers / usual
    assert (factors[..., [0, 64]] - 20).abs().max() < 1e-4
    assert (factors - 1).abs().lt(1e-5).sum() == 32 * 126
