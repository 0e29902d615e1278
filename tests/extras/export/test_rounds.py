"""The statistics of rounds are those of pytest-benchmark."""

import math
import random
from pathlib import Path

import pytest
from attention_run import SIZES
from pytest_benchmark.stats import Stats
from rows import attention_time

from harness.core.model.sweep_axes import Case
from harness.extras.export.formats import rounds_of, statistics_of, statistics_of_interval


@pytest.mark.parametrize("number", [*range(1, 14), 100])
def test_the_statistics_are_those_of_pytest_benchmark(number: int) -> None:
    draw = random.Random(number)
    values = [draw.lognormvariate(-7, 0.5) for _ in range(number)]
    theirs = Stats()
    for value in values:
        theirs.update(value)
    ours = statistics_of(values)
    assert ours.pop("data") == values
    assert ours.pop("iterations") == 1
    assert ours.keys() == set(Stats.fields)
    assert ours == pytest.approx(theirs.as_dict())


def test_a_round_is_a_trial_and_its_value_the_fastest_sample(run: Path) -> None:
    found = rounds_of(run)
    case = Case("attention.fused", SIZES[0], 64, 2)
    assert found[case] == pytest.approx([attention_time(case) * (1 + 0.001 * trial) for trial in range(3)])
    assert len(found) == 2 * len(SIZES)


def test_of_an_interval_the_estimate_is_the_least_and_its_end_the_most() -> None:
    stats = statistics_of_interval(1.0, 0.9, 1.2, 4)
    assert [stats[name] for name in ("min", "median", "mean", "max", "rounds", "ops")] == [1.0, 1.0, 1.0, 1.2, 4, 1.0]
    assert stats["stddev"] == pytest.approx(0.3 / 2 / 1.96 * 2)


@pytest.mark.parametrize("ends", [(0.0, None), (None, None), (0.0, math.inf), (2.0, 0.5)])
def test_an_interval_without_ends_is_the_estimate_alone(ends: tuple) -> None:
    stats = statistics_of_interval(1.0, *ends, 0)
    assert {stats[name] for name in ("min", "q1", "median", "q3", "max")} == {1.0}
    assert (stats["stddev"], stats["rounds"]) == (0.0, 1)
