"""How the harness's error falls with wall time, from fewer of the rounds that it measured."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.peers.noise import errors, rms
from benchmarks.peers.with_harness import Repeat, estimates_of, trials_of
from harness.core.model.sweep_axes import Case


@dataclass(frozen=True)
class Point:
    """`rounds` rounds of the cases take `wall_s` in all, the start included, and leave this error."""

    rounds: int
    wall_s: float
    error: float


def curve(repeats: Sequence[Repeat], cases: Sequence[Case], rounds: int) -> list[Point]:
    """A point for 1, 2 … `rounds` rounds, of these cases alone.

    k rounds are k consecutive ones, as they would be measured: rounds far apart would share less of the machine's
    moods. Of all such stretches of each repeat, error and wall time are the mean.
    """
    rows = [{case: _rows_of(repeat, case) for case in cases} for repeat in repeats]
    points = []
    for k in range(1, rounds + 1):
        squares, walls = [], []
        for first in range(rounds - k + 1):
            stretch = [[row for case in cases for row in of[case][first : first + k]] for of in rows]
            times = np.array([_times(of_repeat, cases) for of_repeat in stretch])
            squares.append(rms(errors(times)) ** 2)
            walls += [
                repeat.start_s + sum(row["took_s"] for row in of_repeat)
                for repeat, of_repeat in zip(repeats, stretch, strict=True)
            ]
        points.append(Point(k, statistics.mean(walls), statistics.mean(squares) ** 0.5))
    return points


def enough(points: Sequence[Point], error: float) -> Point | None:
    """The shortest of them that is at least as exact as `error`; None if none is."""
    return min((point for point in points if point.error <= error), key=lambda point: point.wall_s, default=None)


def _rows_of(repeat: Repeat, case: Case) -> list[dict]:
    return [row for row in repeat.rows if Case.from_dict(row["case"]) == case]


def _times(rows: Sequence[dict], cases: Sequence[Case]) -> list[float]:
    estimates = estimates_of(trials_of(rows))
    return [estimates[case].time_s for case in cases]
