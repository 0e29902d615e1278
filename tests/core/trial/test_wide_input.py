"""Somebody's own kernel, whose input is wider than its output and which has no weights, is measured as any layer."""

from collections.abc import Iterator

import pytest
import torch

from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.layer_protocol import input_width
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.verify import verify
from harness.core.trial.workload import Unsupported, build

B, N, D = 2, 8, 4


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def case_of(layer: str, **changed: object) -> Case:
    return Case(
        **{"impl": f"core.trial.wide:{layer}", "seq_len": N, "d_model": D, "num_heads": 1, "batch_size": B} | changed
    )


def test_a_layer_that_says_nothing_has_an_input_as_wide_as_its_output() -> None:
    assert input_width(torch.nn.Identity) == 1
    assert build(case_of("RunningSum"), seed=0).x.shape == (B, N, D)


@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
@pytest.mark.parametrize("mask", ["none", "causal", "padding"])
def test_it_is_verified_in_every_mode_and_under_every_mask(mode: str, mask: str) -> None:
    found = verify(
        case_of("Weighted", mode=mode, mask=mask, padding_fraction=0.5 if mask == "padding" else 0.0), seed=0
    )
    assert found["output_error"] < 1e-5
    assert found.get("gradient_error", 0) < 1e-5


@pytest.mark.parametrize(("mask", "seen"), [("causal", "later tokens"), ("padding", "padding")])
def test_what_a_mask_must_hide_is_hidden_in_every_part_of_the_input(mask: str, seen: str) -> None:
    with pytest.raises(WrongResult, match=f"it sees {seen} that the mask hides"):
        verify(case_of("IsToldAndLooks", mask=mask, padding_fraction=0.5 if mask == "padding" else 0.0), seed=0)


def test_the_gradient_is_of_the_output_and_the_inputs_gradient_as_wide_as_the_input() -> None:
    work = build(case_of("Weighted", mode="train"), seed=0)
    assert work.gradient is not None
    assert work.gradient.shape == work.call().shape == (B, N, D)
    assert work.x.grad is not None
    assert work.x.grad.shape == (B, N, 2 * D)


def test_its_facts_are_of_the_whole_input(runner: Executor) -> None:
    facts = runner.run("facts", case_of("Weighted", mode="train")).values
    of_output = 4 * B * N * D
    assert facts["facts_unknown"] == []
    assert facts["weights_bytes"] == 0
    assert facts["inputs_bytes"] == 2 * of_output + of_output  # and the output's gradient
    assert facts["output_bytes"] == of_output + 2 * of_output  # and the input's
    assert facts["min_bytes"] > facts["inputs_bytes"] + facts["output_bytes"] - of_output
    assert facts["saved_bytes"] > 0
    torch.set_grad_enabled(True)
    facts = collect_metrics(case_of("Weighted"), seed=0)
    assert facts["flops"] == facts["flops_claimed"] == B * 2 * N**2 * D


def test_an_output_as_wide_as_the_input_is_wrong() -> None:
    said = r"it returned shape \(2, 8, 8\) for an input of shape \(2, 8, 8\), where \(2, 8, 4\) is wanted"
    with pytest.raises(WrongResult, match=said):
        verify(case_of("ReturnsItsInput"), seed=0)


def test_it_does_not_decode_even_with_steps_as_no_output_can_be_its_next_input() -> None:
    with pytest.raises(Unsupported, match="its input is 2 times as wide as its output, which cannot be its next token"):
        build(case_of("Steps", mode="decode"), seed=0)


@pytest.mark.parametrize("mode", ["forward", "decode"])
def test_a_width_that_is_no_whole_number_is_refused(mode: str) -> None:
    with pytest.raises(UsageError, match=r"input_width is 0\.5: it must be a whole number from 1 on"):
        build(case_of("HalfAsWide", mode=mode), seed=0)


@pytest.mark.parametrize("width", [0, -3, True, "3", None])
def test_no_other_width_is_taken_for_one(width: object) -> None:
    with pytest.raises(UsageError, match="input_width is"):
        input_width(type("Theirs", (), {"input_width": width}))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_without_weights_it_may_decode_where_it_is_as_wide_as_its_output(dtype: str) -> None:
    found = verify(case_of("RunningSum", mode="decode", dtype=dtype), seed=0)
    assert found["generated"] == N
