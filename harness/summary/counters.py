"""What was recorded beside a case's timed trials, as one number each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Any

from harness.stats.humps import Humps, find_humps
from harness.stats.trials import quiet
from harness.summary.trial_row import trial_of

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Counters:
    """Of all trials of a case: medians, `involuntary_switches` a trial on average, `steal_share` of all their time."""

    compile_s: float | None
    minor_faults_per_call: float | None
    involuntary_switches: float | None
    cpu_over_wall: float | None
    steal_share: float | None
    sm_clock_mhz: float | None
    host_bound: bool | None
    wall_call_s: float | None


def count(rows: Sequence[Row]) -> Counters:
    """The counters of timed trials; None where no trial recorded it."""
    each = [of_trial(row) for row in rows]
    switches = [value for trial in each if (value := trial["involuntary_switches"]) is not None]
    bound = [row["host_bound"] for row in rows if row.get("host_bound") is not None]
    return Counters(
        compile_s=_median([row.get("compile_s") for row in rows]),
        minor_faults_per_call=_median([trial["minor_faults_per_call"] for trial in each]),
        involuntary_switches=mean(switches) if switches else None,
        cpu_over_wall=_median([trial["cpu_over_wall"] for trial in each]),
        steal_share=ratio(
            sum(row.get("steal_ticks", 0) for row in rows), sum(row.get("machine_ticks", 0) for row in rows)
        ),
        sm_clock_mhz=_median([row.get("sm_clock_mhz") for row in rows]),
        host_bound=sum(bound) * 2 > len(bound) if bound else None,
        wall_call_s=_median([row.get("wall_call_s") for row in rows]),
    )


def of_trial(row: Row) -> dict[str, float | None]:
    """One timed trial's counters by the names of `harness.stats.humps.COUNTERS`."""
    calls = len(row["samples_s"]) * row.get("calls_per_sample", 1)
    return {
        "minor_faults_per_call": ratio(row.get("minor_faults"), calls),
        "major_faults_per_call": ratio(row.get("major_faults"), calls),
        "involuntary_switches": row.get("involuntary_switches"),
        "cpu_over_wall": ratio(row.get("cpu_s"), row.get("sampling_s")),
        "steal_share": ratio(row.get("steal_ticks"), row.get("machine_ticks")),
        "cpu_mhz": row.get("cpu_mhz"),
        "sm_clock_mhz": row.get("sm_clock_mhz"),
    }


def humps(rows: Sequence[Row], best_pulse_s: float | None) -> Humps | None:
    """Whether the layer has two times. Trials of a machine that was slow itself would make two of any layer's."""
    calm = [row for row in rows if quiet([trial_of(row)], best_pulse_s)]
    return find_humps([median(row["samples_s"]) for row in calm], [of_trial(row) for row in calm])


def ratio(part: float | None, whole: float | None) -> float | None:
    """`part / whole`; None where either is not known, or there is nothing to be a part of."""
    return part / whole if part is not None and whole else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None
