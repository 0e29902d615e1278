import numpy as np
import pytest

from benchmarks.peers.equal_error import Point, curve, enough
from benchmarks.peers.with_harness import Repeat
from harness.core.model.sweep_axes import Case

CASES = [Case("rnn.torch", n, 64, 1) for n in (128, 256)]
ROUNDS = 6


def repeat(seed: int, others: tuple[Case, ...] = ()) -> Repeat:
    """Rounds of trials, 0.1 s each, of which a quarter is slow by half; half a second's start."""
    draws = np.random.default_rng(seed)
    rows = [
        {
            "case": case.as_dict(),
            "samples_s": [1.5 if draws.random() < 0.25 else 1 + 0.001 * draws.random()],
            "wall_s": 0.09,
            "took_s": 0.1,
            "probe_s": None,
        }
        for _ in range(ROUNDS)
        for case in (*CASES, *others)
    ]
    return Repeat(rows, start_s=0.5, wall_s=0.5 + 0.1 * len(rows))


REPEATS = [repeat(seed) for seed in range(20)]


def test_the_wall_time_is_the_start_and_what_the_rounds_took() -> None:
    points = curve(REPEATS, CASES, ROUNDS)
    assert [point.rounds for point in points] == [1, 2, 3, 4, 5, 6]
    assert [point.wall_s for point in points] == pytest.approx([0.5 + 0.2 * k for k in range(1, 7)])


def test_cases_that_were_not_asked_for_take_no_time() -> None:
    more = [repeat(seed, others=(Case("rnn.elman", 128, 64, 1),)) for seed in range(3)]
    assert curve(more, CASES, ROUNDS)[-1].wall_s == pytest.approx(0.5 + 0.2 * ROUNDS)


def test_more_rounds_leave_a_smaller_error() -> None:
    points = curve(REPEATS, CASES, ROUNDS)
    assert points[0].error > 0.1
    assert points[-1].error < points[0].error / 3


def test_enough_is_the_shortest_that_is_as_exact_as_asked() -> None:
    points = [Point(1, 1.0, 0.2), Point(2, 2.0, 0.1), Point(3, 3.0, 0.05)]
    assert enough(points, 0.1) == points[1]
    assert enough(points, 0.01) is None
