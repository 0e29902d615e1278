"""Histories made of known numbers: facts and ratios of one layer, commit by commit, without measuring anything."""

from pathlib import Path
from typing import Any

import numpy as np

from harness.core.model.sweep_axes import Case
from harness.extras import mean_interval
from harness.extras.commits.history_file import (
    Blessing,
    CommitLine,
    CostModel,
    DirectComparison,
    Header,
    History,
    MeasuredCase,
    Ratio,
)

CASE = Case("mine:Layer", 128, 64, 4, allocator="steady").key
MODEL = "impl=mine:Layer mode=forward dtype=float32 device=cpu threads=1 allocator=steady of=flops"
HERE = {"processor": "EPYC", "threads": "2"}


def name(number: int) -> str:
    """The hash of a commit."""
    return f"{number + 1:040x}"


def ratio(log_ratio: float, seed: int = 0, generations: int = 8) -> Ratio:
    """A ratio around a known one."""
    means = [float(one) for one in np.random.default_rng(seed).normal(log_ratio, 0.01, generations)]
    middle, lo, hi = mean_interval(means)
    return Ratio(log_ratio=middle, lo=lo, hi=hi, generations=means)


def commit(number: int, **changes: Any) -> CommitLine:
    """A measured commit. `facts` and `time` replace those of the case; other `changes` are fields of the line."""
    facts = {"flops": 1000, "ops": 10, "depth": 5, "peak_bytes": 4096, "backend": "math", **changes.pop("facts", {})}
    case = MeasuredCase(facts=facts, time=changes.pop("time", None))
    about: dict[str, Any] = {
        "number": number,
        "date": f"2026-01-{number % 28 + 1:02}T00:00:00+00:00",
        "at": 1.0,
    }
    about |= {"subject": f"commit {number}", "machine": HERE, "versions": {"torch": "2.13.0"}}
    model = CostModel(law="8nd²", exponent_n=1.0)
    return CommitLine(**{"commit": name(number), "cases": {CASE: case}, "models": {MODEL: model}, **about, **changes})


def history(*lines: CommitLine | DirectComparison | Blessing) -> History:
    """A history with these lines, whose anchor is the first commit."""
    header = Header.model_validate({"schema": 1, "harness": "0.1", "anchor": name(0), "settings": ["impl=mine:Layer"]})
    found = History(Path("history.jsonl"), header)
    for line in lines:
        found.add(line)
    return found


def stepping(steps: dict[int, float], commits: int = 12) -> list[CommitLine]:
    """Commits whose log ratio steps at some of them."""
    levels = np.cumsum([steps.get(number, 0.0) for number in range(commits)])
    return [commit(number, time=ratio(float(level), number)) for number, level in enumerate(levels)]


def directly(before: int, after: int, log_ratio: float) -> DirectComparison:
    """Two commits directly compared."""
    about: dict[str, Any] = {"at": 1.0, "machine": HERE, "versions": {}}
    return DirectComparison(before=name(before), after=name(after), case=CASE, time=ratio(log_ratio), **about)


def blessing(number: int) -> Blessing:
    """A blessing of a commit."""
    return Blessing(blessed=name(number), reason="exact <softmax>", at=1.0)
