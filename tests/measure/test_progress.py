"""The progress display of a sweep."""

import io

import pytest
from rich.console import Console
from screens.text_file import without_elapsed_time
from syrupy import SnapshotAssertion

from harness.config import Precision
from harness.measure import progress
from harness.measure.outcome import TrialOutcome
from harness.measure.progress import Screen
from harness.sweep_axes import Case

CASES = [Case("attention.fused", n, 16, 2) for n in (8, 16, 32)]
PRECISION = Precision(target=0.05, min_rounds=3, max_rounds=4, trial_s=0.1, timeout_s=9, case_s=100, patience_s=1)
TIMED = TrialOutcome.of({"status": "ok", "samples_s": [1.0], "wall_s": 10.0})


def shown(terminal: bool, monkeypatch: pytest.MonkeyPatch, width: int = 100) -> str:
    monkeypatch.setattr(progress, "_REDRAW_S", 0.0)
    monkeypatch.setattr(progress, "_PLAIN_LINE_S", 0.0)
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=width, color_system=None)
    with Screen(CASES, PRECISION, console) as screen:
        screen.starting("verify", 1)
        screen.starting("round", 1)
        screen.trial(CASES[0], TIMED)
        screen.finished(CASES[1], "oom")
        screen.finished(CASES[0], "ok")
    return file.getvalue()


def test_a_terminal_sees_the_case_that_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "attention.fused n=8 d=16 h=2" in shown(True, monkeypatch)


def test_elsewhere_there_are_plain_lines_with_cases_done_time_left_and_failures(
    monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    assert without_elapsed_time(shown(False, monkeypatch)) == snapshot


def test_a_narrow_terminal_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "round 1" in shown(True, monkeypatch, width=40)


@pytest.mark.parametrize("terminal", [True, False])
def test_before_the_first_round_it_says_how_many_cases_were_looked_at(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_REDRAW_S", 0.0)
    monkeypatch.setattr(progress, "_PLAIN_LINE_S", 0.0)
    file = io.StringIO()
    with Screen(CASES, PRECISION, Console(file=file, force_terminal=terminal, width=100, color_system=None)) as screen:
        for phase in ("verify", "facts"):
            screen.starting(phase, len(CASES))
            for case in CASES[:2]:
                screen.trial(case, TrialOutcome("ok"))
        screen.starting("round", 1)
        screen.trial(CASES[0], TIMED)
    for line in ("verify 1/3", "verify 2/3", "facts 1/3", "facts 2/3", "round 1"):
        assert f"{line}  0/3 cases done" in file.getvalue()
