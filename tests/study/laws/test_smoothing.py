"""Times that borrow strength from the cost model: narrower where it holds, as they were where it does not."""

from dataclasses import replace

import numpy as np
import pytest
from core.stats.noise import KINDS
from core.stats.population import MACHINES, Spreads
from rows import usual_lines
from study.laws.smoothed_runs import smoothed_run

from harness.core.results.columns import CaseResult
from harness.study.laws.crossovers import crossovers
from harness.study.laws.fitted_laws import fit_laws
from harness.study.laws.predict import hold_out
from harness.study.laws.smoothing import smooth, with_times_in_law

POINTS = 24
NO_SLOPES = np.ones((POINTS, 1)), np.zeros(1)


def logs_of(misfit: float, error: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """True log times about a law of 0, and measured ones."""
    rng = np.random.default_rng(seed)
    true = misfit * rng.standard_normal(POINTS)
    return true, true + error * rng.standard_normal(POINTS)


def test_where_the_law_holds_most_of_a_time_is_the_laws() -> None:
    true, logs = logs_of(0.0, 0.1)
    found = smooth(logs, np.full(POINTS, 0.01), np.zeros(POINTS), *NO_SLOPES)
    assert found.misfit < 0.05
    assert np.median(found.borrowed) > 0.7
    assert np.std(found.means - true) < 0.6 * np.std(logs - true)
    assert np.median(found.deviations) < 0.08


def test_where_the_law_does_not_hold_nothing_is_borrowed() -> None:
    _, logs = logs_of(0.5, 0.05)
    found = smooth(logs, np.full(POINTS, 0.0025), np.zeros(POINTS), *NO_SLOPES)
    assert found.misfit > 0.3
    assert np.max(found.borrowed) < 0.05
    assert found.means == pytest.approx(logs, abs=0.02)
    assert found.deviations == pytest.approx(0.05, rel=0.05)


def test_a_case_much_noisier_than_the_others_stays_less_certain() -> None:
    variances = np.where(np.arange(POINTS) == 0, 0.25, 0.0025)
    _, logs = logs_of(0.0, 0.05)
    found = smooth(logs, variances, np.zeros(POINTS), *NO_SLOPES)
    assert 0.1 < found.deviations[0] < 0.4
    assert np.median(found.deviations[1:]) < 0.05


def test_cases_that_are_faster_the_noisier_they_are_shift_against_the_law_together() -> None:
    errors = np.where(np.arange(POINTS) % 3 == 0, 0.15, 0.01)
    logs = 0.01 * np.random.default_rng(2).standard_normal(POINTS) - 1.5 * (errors - 0.01)
    found = smooth(logs, errors**2, np.zeros(POINTS), *NO_SLOPES)
    assert found.means[errors > 0.1] == pytest.approx(-0.21, abs=0.06)
    assert found.means[errors < 0.1] == pytest.approx(0, abs=0.03)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_intervals_with_the_law_hold_the_truth_and_are_no_wider(machine: Spreads) -> None:
    held, narrower = [], []
    for seed, draw in enumerate(KINDS.values()):
        lines, truth = smoothed_run(draw, machine, seed)
        for line in lines:
            _, lo, hi = line.best_known_time
            held.append(lo <= truth[line.case] <= hi)
            narrower.append(np.log(hi / lo) / np.log(line.time_hi_s / line.time_lo_s))
    assert np.mean(held) >= 0.93
    assert np.median(narrower) <= 1.0


def test_a_layer_that_leaves_its_law_keeps_its_own_times() -> None:
    lines, _ = smoothed_run(KINDS["normal"], MACHINES["noisy"], 3, broken=12.0)
    large = [line for line in lines if line.impl == "attention.packed" and line.num_heads * line.seq_len**2 > 2**21]
    for line in large:
        time, lo, hi = line.best_known_time
        assert time == pytest.approx(line.time_s, rel=0.1)
        assert np.log(hi / lo) > 0.8 * np.log(line.time_hi_s / line.time_lo_s)


def test_smoothed_times_go_into_crossovers_and_nothing_else() -> None:
    lines = with_times_in_law(usual_lines(), fit_laws(usual_lines()))
    slower = [_tripled(line) if line.impl == "rnn.torch" else line for line in lines]
    assert fit_laws(slower) == fit_laws(lines)
    assert hold_out(slower) == hold_out(lines)
    assert [str(one) for one in crossovers(slower)] != [str(one) for one in crossovers(lines)]


def _tripled(line: CaseResult) -> CaseResult:
    time, lo, hi = line.best_known_time
    return replace(line, time_in_law_s=3 * time, time_in_law_lo_s=3 * lo, time_in_law_hi_s=3 * hi)


def test_series_of_single_trials_or_few_sizes_borrow_nothing() -> None:
    once = [replace(line, time_lo_s=None, time_hi_s=None) for line in usual_lines()]
    few = [line for line in usual_lines() if line.seq_len <= 128 and line.d_model == 128]
    for lines in (once, few):
        assert {line.time_in_law_s for line in with_times_in_law(lines, fit_laws(lines))} == {None}
