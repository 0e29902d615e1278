"""Two default sweeps, one after the other: do their intervals agree, and do their crossovers contradict a better run?

All times of the second sweep may differ from the first by one common factor, because a machine changes its speed. This
factor is reported, and taken off. Then the interval of each ratio (second over first) should contain 1 nineteen times
in twenty.

HARNESS_BENCH_RUNS=RUN,RUN     compares two sweeps measured before
HARNESS_BENCH_REFERENCE=RUN    a run of the same grid with more trials, against which crossovers are checked
"""

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.core.results.stored_run import read_run_directory
from harness.study.analyse import analyse
from harness.study.complete_lines import complete_lines
from harness.study.laws.crossovers import Crossover, ratio_at

RUNS = os.environ.get("HARNESS_BENCH_RUNS")
REFERENCE = os.environ.get("HARNESS_BENCH_REFERENCE")
Interval = tuple[float, float, float]


@dataclass(frozen=True)
class Run:
    """The lines of a sweep, and where its layers cross."""

    lines: list[CaseResult]
    crossovers: list[Crossover]


def test_two_sweeps(tmp_path: Path) -> None:
    paths = RUNS.split(",") if RUNS else [_measured(tmp_path / name) for name in ("first", "second")]
    runs = [_read(Path(path)) for path in paths]
    print()
    for path, run in zip(paths, runs, strict=True):
        _print_run(str(path), run)
    first, second = map(_times, runs)
    gaps = [ratio_at(case.seq_len, second[case], first[case]) for case in first.keys() & second.keys()]
    values = np.array([gap.value for gap in gaps])
    common = float(np.median(values))
    held = np.mean([gap.lo <= common <= gap.hi for gap in gaps])
    print(
        f"second over first: common factor {np.exp(common):.3f}; of {len(gaps)} intervals of ratios "
        f"{100 * held:.1f} % contain it; scatter of the ratios around it {100 * (values - common).std():.1f} %, "
        f"robust {100 * 1.4826 * float(np.median(np.abs(values - common))):.1f} %"
    )
    if REFERENCE:
        known = {_pair(c): c for c in _read(Path(REFERENCE)).crossovers}
        for path, run in zip(paths, runs, strict=True):
            found = [c for c in run.crossovers if c.metric == "time" and _pair(c) in known]
            wrong = [c for c in found if _contradict(c, known[_pair(c)]) or _contradict(known[_pair(c)], c)]
            print(f"{path}: of {len(found)} crossovers of time {len(wrong)} contradict {REFERENCE}")
            for c in wrong:
                print(f"  {c.slower}, {c.faster}, d={c.d_model} h={c.num_heads}: {c}; reference: {known[_pair(c)]}")


def _read(path: Path) -> Run:
    stored = read_run_directory(path)
    lines = complete_lines(stored.lines, stored.machine, stored.config.get("baseline"))[0]
    return Run(lines, list(analyse(lines, stored.machine, stored.config).crossovers))


def _measured(out: Path) -> Path:
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "harness", "sweep", f"out={out}"], check=True, capture_output=True)
    print(f"\n{out.name}: {time.monotonic() - began:.1f} s")
    return out


def _print_run(name: str, run: Run) -> None:
    width = np.array([hi / lo for _, lo, hi in _times(run).values()])
    disturbed = np.mean([line.disturbed_share or 0.0 for line in run.lines])
    times = [c for c in run.crossovers if c.metric == "time"]
    print(
        f"{name}: hi/lo median {np.median(width):.2f}, nine in ten {np.quantile(width, 0.9):.2f}; disturbed "
        f"{100 * disturbed:.0f} % of the trials; decided {sum(c.decided for c in times)} of {len(times)} crossings"
    )


def _times(run: Run) -> dict[Case, Interval]:
    return {
        line.case: (line.time_s, line.time_lo_s, line.time_hi_s)
        for line in run.lines
        if line.time_s is not None and line.time_lo_s is not None and line.time_hi_s is not None
    }


def _pair(c: Crossover) -> tuple[object, ...]:
    return frozenset((c.slower, c.faster)), c.metric, c.d_model, c.num_heads, c.setting


def _contradict(one: Crossover, other: Crossover) -> bool:
    """Whether `one` is sure that a layer costs more at a size where `other` is sure that it does not."""
    if one.slower != other.slower:  # the same pair of layers, the other way round: both cannot be above at the end
        return one.seq_len_hi is not None and other.seq_len_hi is not None
    surely_above = max(one.seq_len_hi, one.measured_from) if one.seq_len_hi is not None else np.inf
    return bool(other.seq_len_lo) and other.seq_len_lo >= surely_above
