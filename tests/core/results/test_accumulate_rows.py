"""What a row must hold to count, and that rows accumulated together in any number of parts."""

import json
from typing import Any

import pytest
from rows import PRECISION, row

from harness.core.model.sweep_axes import Case
from harness.core.results.row import InvalidRow
from harness.core.results.row_files import RunAccumulator
from harness.core.results.summarise import Trials, _lines_of

CASE = Case("attention.fused", 64, 32, 2)
OTHER = Case("rnn.elman", 8, 4, 1)


def timed(**fields: Any) -> dict[str, Any]:
    return {**row(CASE, "time", 1, samples_s=[1.0, 2.0], probe_s=None), **fields}


def facts(**fields: Any) -> dict[str, Any]:
    return row(CASE, "facts", **fields)


def without(whole: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in whole.items() if key != name}


@pytest.mark.parametrize(
    "whole", [timed(), timed(minor_faults=None), facts(), facts(flops=3, transient_bytes=-1, backend="ATen")]
)
def test_a_whole_row_counts(whole: dict[str, Any]) -> None:
    accumulated = RunAccumulator()
    accumulated.add(whole)
    assert list(accumulated.cases) == [tuple(CASE.as_dict().values())]


def refused(row: dict[str, Any], why: str = ".") -> None:
    """Adding the row leaves no trace, and the reason is `why`."""
    accumulated = RunAccumulator()
    with pytest.raises(InvalidRow, match=why):
        accumulated.add(row)
    assert not accumulated.cases
    assert not accumulated.records
    assert not accumulated.others


# Samples of 1 and 2 s of three calls each take 9 s.
WITH_TIMES = {"calls_per_sample": 3, "wall_s": 20.0}
# A pass that saves 70 of 100 bytes.
MEMORY = {"peak_bytes": 100, "peak_traced_bytes": 90, "first_call_bytes": 10, "saved_bytes": 70, "transient_bytes": 30}


@pytest.mark.parametrize(
    "whole",
    [
        timed(**WITH_TIMES, sampling_s=9.5, between_s=0.5),
        timed(**WITH_TIMES, sampling_s=9.0, between_s=0.0),
        timed(**WITH_TIMES, sampling_s=9.5),
        # On a GPU, samples may be taken after the time that is told.
        timed(**WITH_TIMES, sampling_s=0.5, queue_held=0.0),
        timed(key=None),
        # Axes that were added later are missing.
        timed(key="impl=rnn.elman seq_len=8 d_model=4 num_heads=1", case=dict(list(OTHER.as_dict().items())[:4])),
        facts(**MEMORY),
        facts(**{**MEMORY, "transient_bytes": 100}),  # backward: what it finds was saved before
        facts(flops=2, flops_full=2, depth=3, depth_declared=3, min_bytes=9, read_bytes=9),
        facts(output_error=1e-7, output_error_max=1e-7),
        row(CASE, "reopen", status="ok", reason="after oom"),
    ],
)
def test_numbers_that_agree_count(whole: dict[str, Any]) -> None:
    RunAccumulator().add(whole)


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (timed(key=OTHER.key), "its key is of another case"),
        (timed(key=""), "its key is of another case"),
        (timed(case=OTHER.as_dict()), "its key is of another case"),
        (facts(key=OTHER.key), "its key is of another case"),
        (timed(**WITH_TIMES, sampling_s=8.9), "its samples do not add up to its sampling_s"),
        (timed(**WITH_TIMES, sampling_s=9.5, between_s=0.4), "its samples do not add up to its sampling_s"),
        # A tenth of each sample is left: what lies between them tells it.
        (timed(**WITH_TIMES, samples_s=[0.1, 0.2], sampling_s=9.5, between_s=0.5), "do not add up"),
        (timed(**WITH_TIMES, sampling_s=20.1), "its sampling_s is more than its wall_s"),
        (timed(steal_ticks=3, machine_ticks=2), "its steal_ticks is more than its machine_ticks"),
        (timed(minor_faults=-1), "not numbers in their bounds"),
        (timed(calls_per_sample=-2), "not numbers in their bounds"),
        (timed(calls_per_sample=0), "not numbers in their bounds"),
        (timed(reason="out of memory"), "it is ok, and has a reason why it failed"),
        (facts(flops=3, flops_full=2), "its flops is more than its flops_full"),
        (facts(flops=10**9 + 1, flops_full=10**9), "its flops is more than its flops_full"),
        (facts(depth=3, depth_declared=4), "its depth_declared is more than its depth"),
        (facts(min_bytes=9, read_bytes=10), "its read_bytes is more than its min_bytes"),
        (facts(peak_bytes=9, first_call_bytes=10), "its first_call_bytes is more than its peak_bytes"),
        (facts(**{**MEMORY, "peak_bytes": 80}), "its peak_traced_bytes is more than its peak_bytes"),
        (facts(**{**MEMORY, "peak_bytes": 101}), "its peak_bytes is not the sum of its parts"),
        (facts(output_error=2e-7, output_error_max=1e-7), "its output_error is more than its output_error_max"),
        (facts(gradient_error=2e-7, gradient_error_max=1e-7), "gradient_error is more than its gradient_error_max"),
    ],
)
def test_a_row_that_contradicts_itself_is_refused_with_the_contradiction(bad: dict[str, Any], why: str) -> None:
    refused(bad, why)


BAD_TIMED = [
    {"samples_s": []},
    {"samples_s": None},
    {"samples_s": "1.0"},
    {"samples_s": [1.0, "2.0"]},
    {"samples_s": [1.0, None]},
    {"samples_s": [1.0, float("nan"), 2.0]},
    {"samples_s": [float("inf")]},
    {"samples_s": [-1.0]},
    {"samples_s": [0.0]},
    {"samples_s": [10**400]},
    {"samples_s": [1e308]},
    {"samples_s": [1e-300]},
    {"case": {**CASE.as_dict(), "seq_len": -64}},
    {"case": {**CASE.as_dict(), "batch_size": 0}},
    {"wall_s": None},
    {"wall_s": "long"},
    {"wall_s": 0},
    {"probe_s": "fast"},
    {"probe_s": -1.0},
    {"probe_s": 1e-300},
    {"prepare_s": 1e200},
    {"minor_faults": 1e30},
    {"minor_faults": "many"},
    {"cpu_s": [1.0]},
    {"calls_per_sample": None},
    {"round": "1"},
    {"round": None},
    {"round": 2**80},
    {"family": None},
    {"status": ["ok"]},
    {"status": "fine"},
    {"at": "soon"},
    {"purpose": 3},
    {"case": None},
    {"case": "attention.fused"},
    {"case": {"impl": "x"}},
    {"case": {**CASE.as_dict(), "seq_len": "64"}},
    {"case": {**CASE.as_dict(), "seq_len": [64]}},
    {"case": {**CASE.as_dict(), "threads": 1.5}},
    {"case": {**CASE.as_dict(), "mode": None}},
]


@pytest.mark.parametrize("bad", BAD_TIMED, ids=lambda bad: json.dumps(bad)[:40])
def test_a_row_with_something_else_in_the_place_of_a_value_is_refused_without_a_trace(bad: dict[str, Any]) -> None:
    refused(timed(**bad))


@pytest.mark.parametrize("name", ["case", "family", "purpose", "round", "status", "samples_s", "wall_s", "probe_s"])
def test_a_timed_row_without_what_it_must_hold_is_refused(name: str) -> None:
    refused(without(timed(), name))


@pytest.mark.parametrize(
    "bad",
    [
        facts(flops="many"),
        facts(flops=float("nan")),
        facts(depth=float("inf")),
        facts(ops=2**63),
        facts(min_bytes=1e300),
        facts(peak_bytes=-1),
        facts(backend=3),
        facts(block_sizes=3),
        facts(facts_unknown="flops"),
        facts(facts_unknown=[1]),
        without(facts(), "reason"),
        without(facts(status="oom"), "reason"),
        {**facts(status="oom"), "reason": 3},
    ],
)
def test_facts_and_failures_that_cannot_be_are_refused(bad: dict[str, Any]) -> None:
    refused(bad)


@pytest.mark.parametrize("edit", [{"impl": ""}, {"num_heads": 5}, {"num_heads": 8, "num_kv_heads": 3}], ids=str)
def test_a_case_that_no_layer_can_measure_is_none(edit: dict[str, Any]) -> None:
    for whole in (timed(), facts()):
        refused({**whole, "key": None, "case": {**CASE.as_dict(), **edit}}, "a row of no case")


def test_heads_that_do_not_fit_are_a_case_that_no_layer_supports() -> None:
    case = {**CASE.as_dict(), "num_heads": 5}
    accumulated = RunAccumulator()
    accumulated.add({**row(CASE, "verify", status="unsupported", reason="odd"), "key": None, "case": case})
    (line,) = _lines_of(accumulated, Trials(accumulated), PRECISION)
    assert (line.num_heads, line.status, line.reason) == (5, "unsupported", "odd")


def test_a_failure_without_a_reason_says_so() -> None:
    accumulated = RunAccumulator()
    accumulated.add(row(CASE, "verify", status="error", reason=None))
    (line,) = _lines_of(accumulated, Trials(accumulated), PRECISION)
    assert (line.status, line.reason) == ("error", "no reason was recorded")


def test_a_bad_row_does_not_undo_a_good_one() -> None:
    accumulated = RunAccumulator()
    accumulated.add(timed())
    with pytest.raises(InvalidRow):
        accumulated.add(timed(round=2, minor_faults="many"))
    (line,) = _lines_of(accumulated, Trials(accumulated), PRECISION)
    assert (line.trials, line.time_s) == (1, 1.0)
