"""Which number of a case's trials repeats best: every candidate's run-to-run error, from the same real trials.

The 12-case grid is measured again and again; of each repeat, every case's trials are made one number by each
candidate. Trials taken while the machine was slow either count like the others, or not if the quiet ones are enough.
Then, of the intervals of `time_s`: how often they hold the low quantile of all trials of all repeats.
`tests/extras/compare/bench_visits.py` separates the noise of the process from the noise of the moment.

    HARNESS_BENCH_REPEATS=24 HARNESS_BENCH_TRIAL_S=0.03 HARNESS_BENCH_ROUNDS=9
    HARNESS_BENCH_ROWS=FILE     read what bench_peers.py kept (HARNESS_BENCH_KEEP) instead of measuring
"""

import json
import os
from collections.abc import Sequence
from itertools import compress
from pathlib import Path

import numpy as np

from benchmarks.candidates import BETWEEN, WITHIN
from benchmarks.peers.grid import CASES, ROUNDS
from benchmarks.peers.noise import errors, rms
from benchmarks.peers.with_harness import Harness, SampledTrial, estimates_of, trials_of
from harness.core.model.sweep_axes import Case
from harness.core.stats.estimate import are_quiet, best_probe, counted
from harness.core.stats.interval import low_quantile

REPEATS = int(os.environ.get("HARNESS_BENCH_REPEATS", "24"))
ROWS = os.environ.get("HARNESS_BENCH_ROWS")
# What a quick sweep takes of each case, and what this one does.
NUMBERS = sorted({min(4, ROUNDS), ROUNDS})

Repeat = dict[Case, list[SampledTrial]]


def test_estimators() -> None:
    repeats = _kept(Path(ROWS)) if ROWS else _measured()
    print(f"\nrun-to-run error (RMS over {len(CASES)} cases) of {len(repeats)} repeats")
    for number in NUMBERS:
        first = [{case: trials[:number] for case, trials in repeat.items()} for repeat in repeats]
        for title, some in (("every trial", False), ("quiet trials, where they are half of all", True)):
            _print_errors(f"{number} trials a case, {title}", first, some)
        _print_coverage(number, first, repeats)


def _measured() -> list[Repeat]:
    harness = Harness()
    for _ in range(REPEATS):
        harness.core.run(CASES, 0.0)
    return [trials_of(repeat.rows) for repeat in harness.repeats]


def _kept(path: Path) -> list[Repeat]:
    rows: dict[int, list[dict]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        rows.setdefault(row["repeat"], []).append(row)
    return [trials_of(of_repeat) for of_repeat in rows.values()]


def _print_errors(title: str, repeats: Sequence[Repeat], only_quiet: bool) -> None:
    print(f"\n{title}; rows within a trial, columns between trials")
    print(" " * 14 + "".join(f"{name:>14}" for name in BETWEEN))
    chosen = [_quiet(repeat) if only_quiet else repeat for repeat in repeats]
    for within, inner in WITHIN.items():
        values = [[[inner(t.samples_s) for t in repeat[case]] for case in CASES] for repeat in chosen]
        found = [
            rms(errors(np.array([[outer(of_case) for of_case in of_repeat] for of_repeat in values])))
            for outer in BETWEEN.values()
        ]
        print(f"{within:<14}" + "".join(f"{100 * error:>12.1f} %" for error in found))


def _quiet(repeat: Repeat) -> Repeat:
    """As `estimate` chooses them."""
    best = best_probe([trial for trials in repeat.values() for trial in trials])
    return {case: _counted(trials, best) for case, trials in repeat.items()}


def _counted(trials: list[SampledTrial], best: float) -> list[SampledTrial]:
    counting = counted(are_quiet(trials, best)[None])
    return list(compress(trials, counting[0]))


def _print_coverage(number: int, first: Sequence[Repeat], repeats: Sequence[Repeat]) -> None:
    held, widths = [], []
    estimates = [estimates_of(repeat) for repeat in first]
    for case in CASES:
        every = np.sort([trial.value_s for repeat in repeats for trial in repeat[case]])
        truth = float(low_quantile(every))
        held += [of[case].lo_s <= truth <= of[case].hi_s for of in estimates]
        widths += [of[case].half_width for of in estimates]
    print(
        f"\n{number} trials a case: the interval holds the low quantile of all in {100 * np.mean(held):.0f} % of "
        f"{len(held)}; half width in the median ±{100 * np.median(widths):.1f} %"
    )
