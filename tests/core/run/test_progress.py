"""The progress display of a sweep."""

import io
from typing import Any

import pytest
from rich.console import Console
from screens.text_file import without_elapsed_time
from syrupy import SnapshotAssertion

from harness.core.config import Precision
from harness.core.model.sweep_axes import Case
from harness.core.run import progress
from harness.core.run.expected_time import ExpectedTime
from harness.core.run.outcome import TrialOutcome
from harness.core.run.progress import Screen
from harness.core.run.scheduler import ResumeState
from harness.core.stats.estimate import Trial

CASES = [Case("attention.fused", n, 16, 2) for n in (8, 16, 32)]
PRECISION = Precision(target=0.05, min_rounds=3, max_rounds=4, trial_s=0.1, timeout_s=9, case_s=100, patience_s=1)
ALL = frozenset(CASES)
TRIAL = Trial(1.0, 1.0, 10.0, None)
COUNTED = TrialOutcome("ok", values={"peak_bytes": 1}, wall_s=0.1)
TIMED = TrialOutcome("ok", values={"samples_s": [1.0]}, wall_s=10.0)


def screen(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, width: int = 100, **options: Any
) -> tuple[Screen, io.StringIO]:
    """A screen that draws at every trial, and the file that it draws to."""
    monkeypatch.setattr(progress, "REDRAW_S", 0.0)
    monkeypatch.setattr(progress, "PLAIN_LINE_S", 0.0)
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=width, color_system=None)
    return Screen(CASES, ExpectedTime(PRECISION), console, **options), file


def shown(terminal: bool, monkeypatch: pytest.MonkeyPatch, width: int = 100) -> str:
    of_sweep, file = screen(terminal, monkeypatch, width)
    with of_sweep:
        of_sweep.starting("verify", 3)
        of_sweep.starting("facts", 3)
        for case in CASES:
            of_sweep.trial("facts", case, COUNTED)
        of_sweep.starting("round", 1)
        of_sweep.trial("time", CASES[0], TIMED)
        of_sweep.finished(CASES[1], "oom")
        of_sweep.finished(CASES[0], "ok")
    return file.getvalue()


def test_a_terminal_sees_the_case_that_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "attention.fused n=8 d=16 h=2" in shown(True, monkeypatch)


def test_elsewhere_there_are_plain_lines_with_phase_trials_share_time_left_and_failures(
    monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    assert without_elapsed_time(shown(False, monkeypatch)) == snapshot


def test_a_narrow_terminal_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "[3/4 time]" in shown(True, monkeypatch, width=40)


@pytest.mark.parametrize("terminal", [True, False])
def test_before_the_first_round_it_says_how_many_cases_were_looked_at(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_sweep, file = screen(terminal, monkeypatch)
    with of_sweep:
        for phase in ("verify", "facts"):
            of_sweep.starting(phase, len(CASES))
            for case in CASES[:2]:
                of_sweep.trial(phase, case, TrialOutcome("ok"))
    for line in (
        "[1/4 verify]  1/3 cases",
        "[1/4 verify]  2/3 cases",
        "[2/4 count]  1/3 cases",
        "[2/4 count]  2/3 cases",
    ):
        assert line in file.getvalue()


def test_trials_of_an_earlier_sweep_count_as_done(monkeypatch: pytest.MonkeyPatch) -> None:
    of_sweep, file = screen(False, monkeypatch, past=ResumeState({CASES[0]: 3 * [TRIAL]}, facts=ALL))
    with of_sweep:
        of_sweep.starting("round", 4)
    assert "3/12 trials" in file.getvalue()


def test_measured_trials_set_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    of_sweep, file = screen(False, monkeypatch, past=ResumeState(facts=ALL))
    with of_sweep:
        of_sweep.starting("round", 1)
        for case in CASES:
            of_sweep.trial("time", case, TIMED)
    # Three cases have three of four trials left, of ten seconds each; the report takes five.
    assert "3/12 trials" in file.getvalue()
    assert "95 s left" in file.getvalue()


def test_repeats_in_quiet_moments_and_the_wait_for_them_count_as_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    of_sweep, file = screen(False, monkeypatch, past=ResumeState(facts=ALL))
    with of_sweep:
        of_sweep.starting("round", 1)
        for case in CASES:
            of_sweep.trial("time", case, TIMED)
            of_sweep.finished(case, "ok")
        of_sweep.starting("again", 2)
    # Two repeats of ten seconds, a second of patience, and five for the report.
    assert "26 s left" in file.getvalue().splitlines()[-1]


def test_without_timing_no_trials_are_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    of_sweep, file = screen(False, monkeypatch, times=False)
    with of_sweep:
        of_sweep.starting("facts", 3)
        for case in CASES:
            of_sweep.trial("facts", case, COUNTED)
    assert file.getvalue().splitlines()[-1].endswith("[2/4 count]  3/3 cases  0 %  5 s left")
