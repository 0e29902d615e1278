"""Run-to-run error: the same 12-case grid measured over and over, by this harness and by torch's Timer.

A repeat of either takes the same wall time, and the two take turns, so that both meet the same machine.
`Timer.blocked_autorange` measures one case after the other in one process, for an equal share of the time
each, and gives its median. The harness runs its rounds in fresh processes. The error of a method is the
root mean square, over cases and repeats, of log(time / the case's geometric mean over repeats).

Then, from the harness's own trials, the same error for each way to make one number of them.

    HARNESS_BENCH_REPEATS=8 HARNESS_BENCH_TRIAL_S=0.03 HARNESS_BENCH_ROUNDS=9
"""

import json
import math
import os
import statistics
import subprocess
import sys
import time

import numpy as np

from harness.case import Case
from harness.catalog import traits
from harness.config import Precision
from harness.stats.estimate import Trial, best_pulse, estimate, quiet
from harness.sweep.driver import Sweep
from harness.sweep.runner import Runner

REPEATS = int(os.environ.get("HARNESS_BENCH_REPEATS", "8"))
TRIAL_S = float(os.environ.get("HARNESS_BENCH_TRIAL_S", "0.03"))
ROUNDS = int(os.environ.get("HARNESS_BENCH_ROUNDS", "9"))
THREADS = os.cpu_count() or 1
CASES = [
    Case(impl, n, 256, 4 if impl.startswith("attention") else 1, threads=THREADS)
    for impl in ("rnn.torch", "attention.naive", "attention.packed", "attention.fused")
    for n in (128, 512, 1024)
]
# Every case gets all its rounds: what is compared is the estimate, at a given wall time.
PRECISION = Precision(
    target=1e-9, min_rounds=ROUNDS, max_rounds=ROUNDS, trial_s=TRIAL_S, timeout_s=60, case_s=1e9, patience_s=2
)

TIMER = """
import json, sys, torch
from torch.utils.benchmark import Timer
from harness.case import Case
from harness.trial.build import build
cases, share_s = json.load(sys.stdin)
out = []
for fields in cases:
    case = Case.from_dict(fields)
    work = build(case, 0)
    timer = Timer("call()", globals={"call": work.call}, num_threads=case.threads)
    out.append(timer.blocked_autorange(min_run_time=share_s).median)
print(json.dumps(out))
"""


class Trials:
    """Keeps what the sweep measures, case by case."""

    def __init__(self) -> None:
        self.of: dict[Case, list[Trial]] = {case: [] for case in CASES}

    def write(self, row: dict) -> None:
        if row["purpose"] == "time":
            trial = Trial(row["samples_s"], row["wall_s"], row["pulse_s"])
            self.of[Case.from_dict(row["case"])].append(trial)

    def starting(self, phase: str, number: int) -> None: ...
    def trial(self, case: Case, outcome: dict) -> None: ...
    def finished(self, case: Case, status: str) -> None: ...


def by_harness() -> tuple[dict[Case, list[Trial]], float]:
    """One repeat, with the start of its warm parent; verification and facts, which the Timer has not, left out."""
    began = time.monotonic()
    kept = Trials()
    with Runner(seed=0, trial_s=TRIAL_S, timeout_s=60, memory_limit=None) as runner:
        sweep = Sweep(CASES, {c.impl: traits(c.impl) for c in CASES}, PRECISION, runner, kept, kept)
        sweep.time_in_rounds()
    return kept.of, time.monotonic() - began


def by_timer(wall_s: float) -> tuple[list[float], float]:
    """One repeat of the same wall time: what its start takes is known from the repeats before."""
    share_s = max(0.05, (wall_s - by_timer.start_s) / len(CASES))
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", TIMER],
        input=json.dumps([[case.as_dict() for case in CASES], share_s]),
        capture_output=True,
        text=True,
        check=True,
    )
    taken = time.monotonic() - began
    by_timer.start_s = max(1.0, by_timer.start_s + taken - wall_s)
    return json.loads(done.stdout), taken


by_timer.start_s = 2.0


def errors(times: np.ndarray) -> np.ndarray:
    """Each case's run-to-run error, of (repeats, cases)."""
    logs = np.log(times)
    return np.sqrt(((logs - logs.mean(0)) ** 2).sum(0) / (len(logs) - 1))


def rms(values: np.ndarray) -> float:
    return math.sqrt(float((values**2).mean()))


def quantile(share: float):
    return lambda values: float(np.quantile(values, share))


WITHIN = {"min": min, "q10": quantile(0.1), "q25": quantile(0.25), "median": statistics.median, "mean": statistics.mean}
BETWEEN = {
    "min": min,
    "q25": quantile(0.25),
    "lower half": lambda v: statistics.mean(sorted(v)[: (len(v) + 1) // 2]),
    "median": statistics.median,
}


def test_run_to_run_error() -> None:
    ours, theirs, walls = [], [], []
    for _ in range(REPEATS):
        trials, wall = by_harness()
        medians, their_wall = by_timer(wall)
        ours.append(trials)
        theirs.append(medians)
        walls.append((wall, their_wall))
    times = np.array([[_estimate(trials)[case].time_s for case in CASES] for trials in ours])
    our_errors, their_errors = errors(times), errors(np.array(theirs))
    print(f"\n{'case':<38}{'harness':>9}{'Timer':>9}   run-to-run error over {REPEATS} repeats")
    for case, our, their in zip(CASES, our_errors, their_errors, strict=True):
        print(f"{case!s:<38}{100 * our:>8.1f}%{100 * their:>8.1f}%")
    print(f"{'root mean square':<38}{100 * rms(our_errors):>8.1f}%{100 * rms(their_errors):>8.1f}%")
    print(
        f"wall time of a repeat, median: harness {statistics.median(w for w, _ in walls):.1f} s, "
        f"Timer {statistics.median(w for _, w in walls):.1f} s; "
        f"ratio of the errors {rms(our_errors) / rms(their_errors):.2f} (to be reached: at most 0.25)"
    )
    _print_estimators(ours)
    _print_coverage(ours, times)


def _estimate(trials: dict[Case, list[Trial]]) -> dict:
    best = best_pulse([trial for of_case in trials.values() for trial in of_case])
    return {case: estimate(of_case, best) for case, of_case in trials.items()}


def _print_estimators(ours: list[dict[Case, list[Trial]]]) -> None:
    print(
        "\nthe same trials, by estimator: rows within a trial, columns between trials, quiet trials only | all trials"
    )
    print(" " * 8 + "".join(f"{name:>20}" for name in BETWEEN))
    for within, inner in WITHIN.items():
        cells = []
        for outer in BETWEEN.values():
            of_quiet, of_all = [], []
            for trials in ours:
                best = best_pulse([trial for of_case in trials.values() for trial in of_case])
                of_all.append([outer([inner(t.samples_s) for t in trials[case]]) for case in CASES])
                of_quiet.append(
                    [outer([inner(t.samples_s) for t in quiet(trials[case], best) or trials[case]]) for case in CASES]
                )
            cells.append(
                f"{100 * rms(errors(np.array(of_quiet))):>9.1f}% |{100 * rms(errors(np.array(of_all))):>6.1f}%"
            )
        print(f"{within:<8}" + "".join(f"{cell:>20}" for cell in cells))


def _print_coverage(ours: list[dict[Case, list[Trial]]], times: np.ndarray) -> None:
    held = [
        estimated.lo_s <= truth <= estimated.hi_s
        for trials in ours
        for estimated, truth in zip(_estimate(trials).values(), np.median(times, axis=0), strict=True)
    ]
    print(f"\nthe interval held the case's median over the repeats in {100 * np.mean(held):.0f} % of {len(held)}")
