"""The valid answers of interleaved and of traced trials. Nothing else may count as a result."""

import json
from typing import Any

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.results.row import InvalidRow
from harness.core.run.outcome import TrialOutcome, check_entries
from harness.core.trial.trial_kinds import handler_of
from harness.core.trial.workload import Unsupported
from harness.extras.compare.turn_trial import LINES


@pytest.mark.parametrize("purpose", ["turns", "trace"])
def test_a_status_alone_is_no_result(purpose: str) -> None:
    outcome = TrialOutcome.of_answer(json.dumps({"status": "ok", "reason": None}).encode() + b"\n", purpose)
    assert outcome.status == "error"
    assert "is missing" in str(outcome.reason)


@pytest.mark.parametrize("line", [{}, {"min_s": 1e-3}, {"min_s": "a", "mean_s": 1.0}, {"min_s": 0.0, "mean_s": 1.0}])
def test_a_turn_without_its_times_is_refused(line: dict[str, Any]) -> None:
    with pytest.raises(InvalidRow):
        check_entries(line, LINES["turn"])


def test_launches_that_wait_are_refused_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with pytest.raises(Unsupported, match="'unset CUDA_LAUNCH_BLOCKING'"):
        handler_of("turns")[0](Case("rnn.torch", 8, 8, 1, device="cuda"))
