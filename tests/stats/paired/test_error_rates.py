"""Whole comparisons of twelve cases on simulated noise: what is called and is not so, what is so and not called."""

from collections.abc import Callable

import pytest
from stats.paired.simulated import KINDS, Machine, Noise, quiet

from harness.stats.paired_verdicts import PairedResult, Rules, Verdict, measure_blocks, verdicts_of

RULES = Rules()
CASES, CONTROLS = 12, (0, 4, 8)


def compare(ratios: list[float], noise: Noise, seed: int, **ends: Callable[[str], bool]) -> list[PairedResult]:
    machine = Machine(ratios, noise, seed)
    return verdicts_of(measure_blocks(len(ratios), CONTROLS, machine.take, RULES, seed, **ends), RULES)


@pytest.mark.parametrize("kind", KINDS)
def test_identical_code_is_called_slower_or_faster_in_no_run_of_200(kind: str) -> None:
    called = [one.verdict for seed in range(200) for one in compare([1.0] * CASES, KINDS[kind], seed) if not _fine(one)]
    assert called == []


@pytest.mark.parametrize("kind", ["two-level", "bursty", "heavy-tailed", "of parents"])
def test_where_every_case_lies_right_at_the_floor_one_run_in_fifty_calls_any_slower_at_most(kind: str) -> None:
    # Promised is one in 200, of a direction; of 150 runs more than four are then as good as impossible.
    runs = [compare([1 + RULES.threshold] * CASES, KINDS[kind], seed) for seed in range(150)]
    assert sum(any(one.verdict == Verdict.WORSE for one in run) for run in runs) <= 4


def test_a_limit_of_time_makes_no_more_false_ones_and_leaves_what_is_plain() -> None:
    def ending(first: int, again: int) -> Callable[[str], bool]:
        left = {"first": first, "again": again}

        def is_over(stage: str) -> bool:
            left[stage] -= 1
            return left[stage] == 0

        return is_over

    ratios = [1.1] + [1.0] * (CASES - 1)
    ends = [ending(10 + seed % 17, 10 + seed % 11) for seed in range(150)]
    found = [compare(ratios, KINDS["heavy-tailed"], seed, is_over=end) for seed, end in enumerate(ends)]
    assert all(_fine(one) for run in found for one in run[1:])
    assert sum(run[0].verdict == Verdict.WORSE for run in found) >= 0.9 * len(found)
    assert max(one.blocks for run in found for one in run) <= 26 + 20


def _fine(one: PairedResult) -> bool:
    return one.verdict not in (Verdict.WORSE, Verdict.BETTER)


def test_five_per_cent_is_found_and_what_is_below_the_floor_is_never_called() -> None:
    runs = 100
    ratios = [1.05, 1.02] + [1.0] * (CASES - 2)
    found = [compare(ratios, quiet, seed) for seed in range(runs)]
    assert sum(run[0].verdict == Verdict.WORSE for run in found) >= 0.95 * runs
    assert all(_fine(one) for run in found for one in run[1:])
    assert sum(one.verdict == Verdict.EQUIVALENT for run in found for one in run[2:]) >= 0.95 * runs * (CASES - 2)
