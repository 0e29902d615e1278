"""Counters recorded in the timed trials, as one number per case."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from harness.summary.cells import Floats, cells, medians, ratio
from harness.summary.trials import Group


def of_trials(group: Group) -> dict[str, Floats]:
    """The counters of each trial (cases, N) by the names of `harness.stats.humps.COUNTERS`; NaN if not recorded."""
    return {
        "minor_faults_per_call": ratio(group.column("minor_faults"), group.column("calls")),
        "major_faults_per_call": ratio(group.column("major_faults"), group.column("calls")),
        "involuntary_switches": group.column("involuntary_switches"),
        "cpu_over_wall": ratio(group.column("cpu_s"), group.column("sampling_s")),
        "steal_share": ratio(group.column("steal_ticks"), group.column("machine_ticks")),
        "cpu_mhz": group.column("cpu_mhz"),
        "sm_clock_mhz": group.column("sm_clock_mhz"),
    }


def count(group: Group, each: Mapping[str, Floats]) -> dict[str, list[Any]]:
    """Columns of a line, over all trials of a case. `each` comes from `of_trials`.

    The value is None if no trial recorded the counter. Most columns are medians. The exceptions are
    `involuntary_switches` (mean per trial), `steal_share` (share of the total time) and `host_bound` (majority of the
    trials).
    """
    switches = each["involuntary_switches"]
    ticks, of_ticks = group.column("steal_ticks"), group.column("machine_ticks")
    return {
        "compile_s": cells(medians(group.column("compile_s"))),
        "minor_faults_per_call": cells(medians(each["minor_faults_per_call"])),
        "involuntary_switches": cells(ratio(np.nansum(switches, axis=1), _known(switches))),
        "cpu_over_wall": cells(medians(each["cpu_over_wall"])),
        "steal_share": cells(ratio(np.nansum(ticks, axis=1), np.nansum(of_ticks, axis=1))),
        "sm_clock_mhz": cells(medians(each["sm_clock_mhz"])),
        "host_bound": _most(group.column("host_bound")),
        "wall_call_s": cells(medians(group.column("wall_call_s"))),
    }


def _most(flags: Floats) -> list[bool | None]:
    """Whether most known flags are set, for each row (cases, N); None if all are NaN."""
    known = _known(flags)
    most = np.nansum(flags, axis=1) * 2 > known
    return [flag if number else None for flag, number in zip(most.tolist(), known.tolist(), strict=True)]


def _known(values: Floats) -> Floats:
    return (~np.isnan(values)).sum(axis=1).astype(np.float64)
