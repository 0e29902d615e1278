"""Rows in, one tidy table out: a line a case, units in the names."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from harness.case import AXES, Case
from harness.stats.estimate import Estimate, Trial, best_pulse, estimate
from harness.stats.stopping import Limits, restless, stop_reason

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Line:
    """One case of `summary.csv`, its columns in this order. Times in seconds, None where there is no number."""

    impl: str
    family: str
    seq_len: int
    d_model: int
    num_heads: int
    batch_size: int
    mode: str
    dtype: str
    device: str
    threads: int
    status: str
    reason: str | None
    time_s: float | None
    time_lo_s: float | None
    time_hi_s: float | None
    time_median_s: float | None
    trials: int
    stop_reason: str | None
    peak_bytes: int | None
    peak_resident_bytes: int | None
    tokens_per_s: float | None


COLUMNS: tuple[str, ...] = tuple(field.name for field in fields(Line))


@dataclass
class _Rows:
    family: str = ""
    failure: Mapping[str, Any] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    trials: dict[int, Trial] = field(default_factory=dict)


def summarise(rows: Iterable[Mapping[str, Any]], limits: Limits) -> list[Line]:
    """A line for every case that has a row, sorted by case. `limits` are those of the sweep.

    A case's status is `ok` when none of its trials failed, else the first failure's: a layer that is
    killed once in five has no time that could be relied on.
    """
    cases: dict[Case, _Rows] = {}
    for row in rows:
        of_case = cases.setdefault(Case.from_dict(row["case"]), _Rows())
        of_case.family = row["family"]
        if row["status"] != "ok":
            of_case.failure = of_case.failure or row
        elif row["purpose"] == "facts":
            of_case.facts = dict(row)
        elif row["purpose"] == "time":
            of_case.trials[row["round"]] = Trial(row["samples_s"], row["wall_s"], row["pulse_s"])
    pulses = _best_pulses(cases)
    return [_line(case, cases[case], pulses[case.threads], limits) for case in sorted(cases)]


def _best_pulses(cases: Mapping[Case, _Rows]) -> dict[int, float | None]:
    """The best pulse seen in the run, by number of threads."""
    trials: dict[int, list[Trial]] = {}
    for case, rows in cases.items():
        trials.setdefault(case.threads, []).extend(rows.trials.values())
    return {threads: best_pulse(seen) for threads, seen in trials.items()}


def _line(case: Case, rows: _Rows, best_pulse_s: float | None, limits: Limits) -> Line:
    failure = rows.failure
    trials = list(rows.trials.values())
    timed = estimate(trials, best_pulse_s) if trials and failure is None else None
    return Line(
        **{name: getattr(case, name) for name in AXES},
        family=rows.family,
        status="ok" if failure is None else failure["status"],
        reason=None if failure is None else failure["reason"],
        time_s=timed.time_s if timed else None,
        time_lo_s=timed.lo_s if timed else None,
        time_hi_s=_finite(timed),
        time_median_s=timed.median_s if timed else None,
        trials=len(trials),
        stop_reason=_stop(trials, best_pulse_s, failure is not None, limits),
        peak_bytes=rows.facts.get("peak_bytes"),
        peak_resident_bytes=rows.facts.get("peak_resident_bytes"),
        tokens_per_s=case.tokens / timed.time_s if timed else None,
    )


def _finite(timed: Estimate | None) -> float | None:
    return timed.hi_s if timed and math.isfinite(timed.hi_s) else None


def _stop(trials: list[Trial], best_pulse_s: float | None, failed: bool, limits: Limits) -> str:
    if failed:
        return "failed"
    reason = stop_reason(trials, best_pulse_s, limits)
    return reason or ("disturbed" if restless(trials, best_pulse_s, limits) else "interrupted")


def table(lines: Iterable[Line]) -> "pd.DataFrame":
    """The lines as a tidy DataFrame; whole numbers stay whole where some are missing."""
    import pandas as pd  # here: a sweep that only counts its cases must not pay for it

    return pd.DataFrame([asdict(line) for line in lines], columns=list(COLUMNS)).convert_dtypes()
