"""Whole comparisons of twelve cases on simulated noise: what is called and is not so, what is so and not called."""

import math

import pytest
from extras.compare.paired.simulated import KINDS, Clock, Machine, Noise, quiet

from harness.extras.compare.interleaved import controls_among
from harness.extras.compare.paired_evidence import Rules
from harness.extras.compare.paired_verdicts import PairedResult, measure_blocks, verdicts_of
from harness.study.check.check_rules import Verdict

RULES = Rules()
CASES = 12


def compare(ratios: list[float], noise: Noise, seed: int, minutes: float = math.inf) -> list[PairedResult]:
    clock = Clock(Machine(ratios, noise, seed), 60 * minutes, RULES)
    controls = controls_among(len(ratios))
    return verdicts_of(measure_blocks(len(ratios), controls, clock.take, RULES, seed, clock), RULES)


@pytest.mark.parametrize("kind", KINDS)
def test_identical_code_is_called_slower_or_faster_in_no_run_of_200(kind: str) -> None:
    called = [one.verdict for seed in range(200) for one in compare([1.0] * CASES, KINDS[kind], seed) if not _fine(one)]
    assert called == []


@pytest.mark.parametrize("minutes", [math.inf, 5])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "drifting"])
def test_where_every_case_lies_right_at_the_threshold_one_run_in_a_hundred_calls_any_slower_at_most(
    kind: str, minutes: float
) -> None:
    # Promised is one in 200, of a direction; of 150 runs more than four are then as good as impossible.
    runs = [compare([1 + RULES.threshold] * CASES, KINDS[kind], seed, minutes) for seed in range(150)]
    assert sum(any(one.verdict == Verdict.WORSE for one in run) for run in runs) <= 4


@pytest.mark.parametrize("kind", ["heavy-tailed", "parents 1 %"])
@pytest.mark.parametrize("minutes", [5, 2])
def test_a_limit_of_time_makes_no_more_false_ones_and_leaves_what_is_plain(minutes: float, kind: str) -> None:
    found = [compare([1.1] + [1.0] * (CASES - 1), KINDS[kind], seed, minutes) for seed in range(100)]
    assert all(_fine(one) for run in found for one in run[1:])
    assert minutes == 2 or sum(run[0].verdict == Verdict.WORSE for run in found) >= 0.9 * len(found)


def _fine(one: PairedResult) -> bool:
    return one.verdict not in (Verdict.WORSE, Verdict.BETTER)


@pytest.mark.parametrize("kind", ["quiet", "parents 1 %", "parents 1 %, blocks 3 %"])
def test_five_per_cent_is_found_in_ten_minutes_and_what_is_below_the_threshold_is_never_called(kind: str) -> None:
    runs = 100
    ratios = [1.05, 1.02] + [1.0] * (CASES - 2)
    found = [compare(ratios, KINDS.get(kind, quiet), seed, minutes=10) for seed in range(runs)]
    assert sum(run[0].verdict == Verdict.WORSE for run in found) >= 0.95 * runs
    assert all(_fine(one) for run in found for one in run[1:])
    assert sum(one.verdict == Verdict.EQUIVALENT for run in found for one in run[2:]) >= 0.95 * runs * (CASES - 2)
