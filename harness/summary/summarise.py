"""Of all rows of a run, a line for every case."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from harness.case import AXES, Case
from harness.stats.estimate import Estimate, estimate
from harness.stats.stopping import Limits, restless, stop_reason
from harness.stats.trials import Trial, best_pulse
from harness.summary.counters import Counters, count, humps, ratio
from harness.summary.line import Line
from harness.summary.trial_row import trial_of

# Columns that stand in the row of the facts' trial under the same name.
_FACTS = (
    "peak_bytes",
    "peak_resident_bytes",
    "flops",
    "flops_full",
    "flops_claimed",
    "ops",
    "depth",
    "depth_declared",
    "min_bytes",
    "weights_bytes",
    "inputs_bytes",
    "saved_bytes",
    "transient_bytes",
    "backend",
    "backend_fallback",
)


@dataclass
class _Rows:
    family: str = ""
    failure: Mapping[str, Any] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    timed: dict[int, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def trials(self) -> list[Trial]:
        return [trial_of(row) for row in self.timed.values()]


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
            of_case.timed[row["round"]] = row
    pulses = _best_pulses(cases)
    return [_line(case, cases[case], pulses[case.threads], limits) for case in sorted(cases)]


def _best_pulses(cases: Mapping[Case, _Rows]) -> dict[int, float | None]:
    """The best pulse seen in the run, by number of threads."""
    trials: dict[int, list[Trial]] = {}
    for case, rows in cases.items():
        trials.setdefault(case.threads, []).extend(rows.trials)
    return {threads: best_pulse(seen) for threads, seen in trials.items()}


def _line(case: Case, rows: _Rows, best_pulse_s: float | None, limits: Limits) -> Line:
    failure = rows.failure
    trials = rows.trials
    timed = estimate(trials, best_pulse_s) if trials and failure is None else None
    found = humps(list(rows.timed.values()), best_pulse_s) if timed else None
    facts: dict[str, Any] = {name: rows.facts.get(name) for name in _FACTS}
    axes: dict[str, Any] = {name: getattr(case, name) for name in AXES}
    return Line(
        **axes,
        family=rows.family,
        status="ok" if failure is None else failure["status"],
        reason=None if failure is None else failure["reason"],
        time_s=timed.time_s if timed else None,
        time_lo_s=timed.lo_s if timed else None,
        time_hi_s=_finite(timed),
        time_median_s=timed.median_s if timed else None,
        trials=len(trials),
        stop_reason=_stop(trials, best_pulse_s, failure is not None, limits),
        tokens_per_s=case.tokens / timed.time_s if timed else None,
        **facts,
        facts_unknown="; ".join(rows.facts.get("facts_unknown", [])) or None,
        flops_per_byte=ratio(facts["flops"], facts["min_bytes"]),
        **_counted(rows if timed else None),
        humps=found.count if found else None,
        hump_fast_s=found.fast_s if found and found.count == 2 else None,
        hump_slow_s=found.slow_s if found else None,
        hump_cause=found.cause if found else None,
    )


def _counted(rows: _Rows | None) -> dict[str, Any]:
    """The columns of `Counters`."""
    if rows is None:
        return {column.name: None for column in fields(Counters)}
    return asdict(count(list(rows.timed.values())))


def _finite(timed: Estimate | None) -> float | None:
    return timed.hi_s if timed and math.isfinite(timed.hi_s) else None


def _stop(trials: list[Trial], best_pulse_s: float | None, failed: bool, limits: Limits) -> str:
    if failed:
        return "failed"
    reason = stop_reason(trials, best_pulse_s, limits)
    if reason is not None:
        return reason
    # A case that stopped by the best pulse seen until then may be a disturbed one by that of the whole run.
    by_itself = stop_reason(trials, best_pulse(trials), limits)
    return "disturbed" if by_itself or restless(trials, best_pulse_s, limits) else "interrupted"
