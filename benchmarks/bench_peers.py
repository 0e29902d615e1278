"""Run-to-run error, wall time and isolation: the same 12-case grid by this harness and by what else there is.

In one run, repeat by repeat: the harness, torch's Timer with both of its autoranges, pytest-benchmark, and pyperf.
A repeat of a method is in fresh processes. The in-process peers get the wall time that the harness's repeats take,
their start included; the order of methods rotates between repeats, so that all meet the same machine. pyperf is too
slow for that: it measures three cases of the twelve, in three repeats, with `--fast`, and is compared by the wall
time that the harness needs for those three cases to be as exact.

The error of a method is the root mean square, over cases and repeats, of log(time / the case's geometric mean).

    HARNESS_BENCH_REPEATS=8 HARNESS_BENCH_TRIAL_S=0.03 HARNESS_BENCH_ROUNDS=9
    HARNESS_BENCH_PYPERF_REPEATS=3 HARNESS_BENCH_PYPERF_OPTIONS=--fast
    HARNESS_BENCH_KEEP=FILE     the harness's trials, raw, one JSON row a line
"""

import json
import os
import statistics
import time
from pathlib import Path

import numpy as np

from benchmarks.peers.equal_error import curve, enough
from benchmarks.peers.grid import CASES, FEW_CASES, REPEATS, ROUNDS
from benchmarks.peers.method import Method
from benchmarks.peers.noise import error_interval, errors, ratio_interval, rms
from benchmarks.peers.with_harness import Harness
from benchmarks.peers.with_pyperf import Pyperf
from benchmarks.peers.with_pytest_benchmark import PytestBenchmark
from benchmarks.peers.with_timer import AdaptiveAutorange, BlockedAutorange
from harness.core.model.sweep_axes import Case

PYPERF_REPEATS = min(REPEATS, int(os.environ.get("HARNESS_BENCH_PYPERF_REPEATS", "3")))
KEEP = os.environ.get("HARNESS_BENCH_KEEP")


class Record:
    """What one method measured: its wall times, and by statistic its times, a list over cases for each repeat."""

    def __init__(self, method: Method, cases: list[Case]) -> None:
        self.method, self.cases = method, cases
        self.walls_s: list[float] = []
        self._times: dict[str, list[list[float]]] = {}

    def repeat(self, wall_s: float) -> None:
        began = time.monotonic()
        readings = self.method.measure(self.cases, wall_s)
        self.walls_s.append(time.monotonic() - began)
        for statistic, of_case in readings.items():
            self._times.setdefault(statistic, []).append([of_case[case] for case in self.cases])

    @property
    def times(self) -> dict[str, np.ndarray]:
        """By statistic, seconds: (repeats, cases)."""
        return {statistic: np.array(times) for statistic, times in self._times.items()}

    @property
    def wall_s(self) -> float:
        return statistics.median(self.walls_s)


def test_peers() -> None:
    harness = Harness()
    in_process = [BlockedAutorange(), AdaptiveAutorange(), PytestBenchmark()]
    for peer in in_process:
        peer.probe(CASES)
    ours = Record(harness, CASES)
    theirs = [Record(peer, CASES) for peer in in_process]
    slow = Record(Pyperf(), FEW_CASES)
    _measure(ours, theirs, slow)
    _print_table([ours, *theirs, slow])
    _print_cases([ours, *theirs])
    _print_ratio(ours, theirs)
    if PYPERF_REPEATS:
        _print_equal_error(harness, slow)


def _measure(ours: Record, theirs: list[Record], slow: Record) -> None:
    """All repeats, the first of which begins with the harness: its wall time is what the peers get."""
    if KEEP:
        Path(KEEP).write_text("")
    slow_in = {round(i) for i in np.linspace(0, REPEATS - 1, PYPERF_REPEATS)}
    for number in range(REPEATS):
        turn = [ours, *theirs, *([slow] if number in slow_in else [])]
        for record in turn[number % len(turn) :] + turn[: number % len(turn)]:
            record.repeat(ours.wall_s if ours.walls_s else 0.0)
        print(
            f"\nrepeat {number + 1} of {REPEATS}: " + ", ".join(f"{r.method.name} {r.walls_s[-1]:.1f} s" for r in turn)
        )
        if KEEP:
            _keep(ours.method, number)


def _keep(harness: Harness, number: int) -> None:
    repeat = harness.repeats[-1]
    of_repeat = {"repeat": number, "repeat_wall_s": repeat.wall_s, "repeat_start_s": repeat.start_s}
    with Path(KEEP).open("a") as kept:
        for row in repeat.rows:
            print(json.dumps({**of_repeat, **row}), file=kept)


def _print_table(records: list[Record]) -> None:
    print(f"\n{'method':<34}{'gives':<10}{'repeats':>8}{'cases':>7}{'wall time':>11}{'error':>8}   what is fresh")
    for record in records:
        for statistic, times in record.times.items():
            print(
                f"{record.method.name:<34}{statistic:<10}{len(times):>8}{len(record.cases):>7}{record.wall_s:>9.1f} s"
                f"{_percent(rms(errors(times))):>8}   {record.method.isolation}"
            )
    print("wall time: of a repeat, median; error: run to run, root mean square over cases and repeats")


def _print_cases(records: list[Record]) -> None:
    columns = {
        f"{record.method.short} {statistic}": times for record in records for statistic, times in record.times.items()
    }
    print("\nof each case, the run-to-run error and the geometric mean of its times in ms")
    print(" " * 36 + "".join(f"{name:>23}" for name in columns))
    for i, case in enumerate(CASES):
        cells = [
            f"{_percent(errors(times)[i])} {1e3 * np.exp(np.log(times[:, i]).mean()):>7.3g}"
            for times in columns.values()
        ]
        print(f"{case!s:<36}" + "".join(f"{cell:>23}" for cell in cells))


def _print_ratio(ours: Record, theirs: list[Record]) -> None:
    if REPEATS < 2:
        print("\none repeat shows no error")
        return
    (our_times,) = ours.times.values()
    peers = {
        f"{record.method.name} ({statistic})": times for record in theirs for statistic, times in record.times.items()
    }
    walls_s = {f"{record.method.name} ({statistic})": record.wall_s for record in theirs for statistic in record.times}
    best = min(peers, key=lambda name: rms(errors(peers[name])))
    low, high = ratio_interval(our_times, peers)
    print(
        f"\nerror of this harness / error of the best in-process peer, {best}, "
        f"which took {walls_s[best] / ours.wall_s:.2f} of our wall time: "
        f"{rms(errors(our_times)) / rms(errors(peers[best])):.2f}, "
        f"95 % bootstrap over {REPEATS} repeats {low:.2f} to {high:.2f} (to be reached: at most 0.25)"
    )


def _print_equal_error(harness: Harness, slow: Record) -> None:
    """Wall time of the harness over wall time of pyperf, where the harness is as exact as pyperf's better statistic."""
    statistic, error = min(
        ((statistic, rms(errors(times))) for statistic, times in slow.times.items()), key=lambda pair: pair[1]
    )
    points = curve(harness.repeats, FEW_CASES, ROUNDS)
    print(f"\n{slow.method.name}, {len(FEW_CASES)} cases only ({', '.join(map(str, FEW_CASES))}), ", end="")
    print(f"{PYPERF_REPEATS} repeats: {slow.wall_s / len(FEW_CASES):.1f} s a case, {slow.wall_s:.1f} s in all")
    print("the harness on the same cases, by the number of rounds, from the trials above:")
    for point in points:
        print(f"{point.rounds:>5} rounds {point.wall_s:>7.2f} s {_percent(point.error):>8}")
    low, high = error_interval(error, PYPERF_REPEATS, len(FEW_CASES))
    for label, asked in ((f"its {statistic}'s error", error), ("the low end of that error's interval", low)):
        print(f"as exact as {label}, {_percent(asked)}: {_at_equal_error(points, asked, slow.wall_s)}")
    print(
        f"To be reached: at most 0.10. Few repeats: with {PYPERF_REPEATS}, 90 % interval of pyperf's error "
        f"{_percent(low)} to {_percent(high)}, and wider if one case dominates it."
    )


def _at_equal_error(points: list, asked: float, slow_wall_s: float) -> str:
    if np.isnan(asked):
        return "one repeat shows no error"
    point = enough(points, asked)
    if point is None:
        return f"not with {len(points)} rounds, which take {points[-1].wall_s / slow_wall_s:.2f} of pyperf's wall time"
    return f"{point.rounds} rounds, {point.wall_s:.2f} s, {point.wall_s / slow_wall_s:.2f} of pyperf's wall time"


def _percent(share: float) -> str:
    return "—" if np.isnan(share) else f"{100 * share:.1f}%"
