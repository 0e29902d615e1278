"""The finished work of a run, from its rows: the state from which a sweep continues."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from harness.case import Case
from harness.stats.trials import Trial
from harness.summary.read import read_run
from harness.summary.repeated import repeated
from harness.summary.trials import Trials

Failure = tuple[str, str | None]


@dataclass(frozen=True)
class Past:
    """The finished work of a run, by case.

    Timed trials are in their order (`trials`). Each failed case has its status and reason (`failures`). Compile times
    are in seconds (`compiles_s`). Each timed case has the hosts that timed it (`hosts`). Cases with facts are in
    `facts`, and failures to retry in `reopened`. Cases to time anew have no trials, and `anew` holds the reason.

    `rounds` is the highest round of a case in any row, whether the trial counts or not. A new trial needs a higher one.
    """

    trials: Mapping[Case, list[Trial]] = field(default_factory=dict)
    failures: Mapping[Case, Failure] = field(default_factory=dict)
    reopened: Mapping[Case, Failure] = field(default_factory=dict)
    rounds: Mapping[Case, int] = field(default_factory=dict)
    compiles_s: Mapping[Case, float] = field(default_factory=dict)
    hosts: Mapping[Case, tuple[str, ...]] = field(default_factory=dict)
    anew: Mapping[Case, str] = field(default_factory=dict)
    facts: frozenset[Case] = frozenset()

    def reopening(self, statuses: Collection[str]) -> "Past":
        """Return a copy with the failures of these statuses reopened."""
        again = {case: failure for case, failure in self.failures.items() if failure[0] in statuses}
        left = {case: failure for case, failure in self.failures.items() if case not in again}
        return replace(self, failures=left, reopened=again)

    def without_times_of(self, hosts: Collection[str], why: str) -> "Past":
        """Return a copy in which the cases timed by any of these hosts are timed anew."""
        anew = {case: why for case, of_case in self.hosts.items() if not set(of_case).isdisjoint(hosts)}
        left = {case: trials for case, trials in self.trials.items() if case not in anew}
        return replace(self, trials=left, anew={case: why for case in anew if case not in self.failures})


def past_of(run: Path) -> tuple[Past, list[str]]:
    """Read the past of a run, and a notice for each unreadable or repeated row."""
    fold, notices = read_run(run)
    cases = [Case(*axes) for axes in fold.cases]
    trials: dict[Case, list[Trial]] = {}
    every, no_pulse = np.ones(len(cases), dtype=bool), np.full(len(cases), np.nan)
    timed = Trials(fold)
    for group in timed.groups(every, no_pulse):
        columns = [group.column(name).tolist() for name in ("value_s", "median_s", "wall_s", "pulse_s")]
        for number, *of_case in zip(group.cases.tolist(), *columns, strict=True):
            trials[cases[number]] = [
                Trial.of(value_s, median_s, wall_s, None if pulse_s != pulse_s else pulse_s)
                for value_s, median_s, wall_s, pulse_s in zip(*of_case, strict=True)
            ]
    past = Past(
        trials=trials,
        failures={cases[number]: failure for number, failure in fold.failures.items()},
        rounds={cases[number]: highest for number, highest in fold.rounds.items()},
        hosts={cases[number]: hosts for number, hosts in fold.hosts.items()},
        compiles_s={cases[number]: seconds for number, seconds in fold.compiles_s.items()},
        facts=frozenset(cases[number] for number in fold.facts),
    )
    return past, [*notices, *repeated(run, fold, timed)]
