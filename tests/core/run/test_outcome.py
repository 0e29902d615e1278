"""The valid answers of a trial. Nothing else may count as a result."""

import json
from typing import Any

import pytest
from rows import row

from harness.core.model.sweep_axes import Case
from harness.core.results.row_files import RunAccumulator
from harness.core.run.executor import Executor
from harness.core.run.outcome import MOST_BYTES, TrialOutcome

OK = {"status": "ok", "reason": None}
TIME = {**OK, "samples_s": [1e-3, 2e-3], "calls_per_sample": 4, "probe_s": 1e-4, "clock_s": 1e-8}
FACTS = {**OK, "peak_bytes": 8, "weights_bytes": 8, "inputs_bytes": 8}
PURPOSES = ("machine", "describe", "verify", "compile", "facts", "time", "probe", "flops", "bandwidth")


def answered(answer: dict[str, Any] | bytes, purpose: str) -> TrialOutcome:
    return TrialOutcome.of_answer(answer if isinstance(answer, bytes) else json.dumps(answer).encode() + b"\n", purpose)


def is_refused(answer: dict[str, Any] | bytes, purpose: str, why: str) -> None:
    outcome = answered(answer, purpose)
    assert outcome.status == "error"
    assert outcome.reason.startswith("the answer of its process is not valid: ")
    assert why in outcome.reason
    assert outcome.values == {}


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_status_alone_is_no_result_of_any_purpose(purpose: str) -> None:
    is_refused(OK, purpose, "is missing")


@pytest.mark.parametrize("purpose", ["machine", "describe", "verify", "compile", "facts", "time", "probe"])
def test_what_real_trials_answer_is_a_result(runner: Executor, case: Case, purpose: str) -> None:
    outcome = runner.run(purpose, case)
    assert outcome.status == "ok", outcome.reason


@pytest.mark.parametrize(
    "line",
    [b"[" * 60000, b"[" * 60000 + b"]" * 60000, b"", b"{", b"\xff", b"9" * 9999, b'{"status": NaN}'],
    ids=["brackets", "nested", "empty", "torn", "no-text", "digits", "nan"],
)
def test_a_line_that_is_no_json_is_refused(line: bytes) -> None:
    is_refused(line + b"\n", "time", "it is not JSON")


@pytest.mark.parametrize("line", [b"[]\n", b"1\n", b"null\n"])
def test_json_that_is_no_object_is_refused(line: bytes) -> None:
    is_refused(line, "time", "it is not a JSON object")


def test_a_line_beyond_the_limit_is_refused_before_it_is_parsed() -> None:
    is_refused(b" " * (MOST_BYTES + 1) + b"{}\n", "time", "it is longer than 64 MiB")


@pytest.mark.parametrize("reason", [7, None, ["a"], {}])
def test_a_failure_without_a_text_is_refused(reason: object) -> None:
    is_refused({"status": "error", "reason": reason}, "time", "'reason'")


def test_of_a_failure_the_reason_is_kept_and_no_figures() -> None:
    outcome = answered({**TIME, "status": "oom", "reason": "no \x1b[31mroom" + "x" * 9999, "forkable": True}, "time")
    assert outcome.values == {}
    assert outcome.reason.startswith("no roomxxx")
    assert len(outcome.reason) == 2000


@pytest.mark.parametrize(
    "samples",
    [[], "1.0", ["1.0"], [None], [True], [0.0], [-1.0], [1e999], [1e-3, float("nan")], [1e-3, 1e300], 1.0, None],
    ids=str,
)
def test_samples_that_are_no_times_are_refused(samples: object) -> None:
    is_refused({**TIME, "samples_s": samples}, "time", "")


@pytest.mark.parametrize(
    "other",
    [
        {"probe_s": "1"},
        {"probe_s": 0},
        {"calls_per_sample": 0},
        {"minor_faults": "many"},
        {"cpu_s": [1]},
        {"clock_s": -1.0},
        {"more": 10**30},
        {"more": json.loads("[" * 99 + "]" * 99)},
        {"case": {"impl": "another"}},
        {"family": 7},
        {"wall_s": 1.0},
        {"anew": True},
        {"sampling_s": 0.011},  # four calls each take 12 ms
        {"sampling_s": 0.012, "between_s": 0.001},
        {"steal_ticks": 2, "machine_ticks": 1},
    ],
    ids=str,
)
def test_what_else_no_timed_trial_gives_is_refused(other: dict[str, Any]) -> None:
    is_refused({**TIME, **other}, "time", "")


@pytest.mark.parametrize(
    "other",
    [{"peak_bytes": -1}, {"flops": 10**30}, {"peak_bytes": 1.5}, {"backend": 3}, {"facts_unknown": [1]}, {"ops": "9"}],
    ids=str,
)
def test_facts_that_are_no_counts_are_refused(other: dict[str, Any]) -> None:
    is_refused({**FACTS, **other}, "facts", "")


@pytest.mark.parametrize(("purpose", "answer"), [("time", TIME), ("facts", FACTS)])
def test_what_is_taken_for_a_result_is_read_back_from_its_row(purpose: str, answer: dict[str, Any], case: Case) -> None:
    outcome = answered({**answer, "more": {"a": [1.5, None, "b"]}}, purpose)
    assert outcome.status == "ok"
    accumulated = RunAccumulator()
    accumulated.add(row(case, purpose, 1, **outcome.entries))
    assert len(accumulated.cases) == 1
