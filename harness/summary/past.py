"""What a run's rows say has been done: where a sweep that goes on takes up."""

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
    """By case: its timed trials in their order, how it failed (status and reason), how long it took to compile, in
    seconds, which hosts have timed it; and which cases have their facts. Failures that are to be tried again are in
    `reopened`; cases that are to be timed anew have no trials, and why so in `anew`.

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
        """The same with failures of these statuses reopened."""
        again = {case: failure for case, failure in self.failures.items() if failure[0] in statuses}
        left = {case: failure for case, failure in self.failures.items() if case not in again}
        return replace(self, failures=left, reopened=again)

    def without_times_of(self, hosts: Collection[str], why: str) -> "Past":
        """The same with cases that one of these hosts has timed to be timed anew."""
        anew = {case: why for case, of_case in self.hosts.items() if not set(of_case).isdisjoint(hosts)}
        left = {case: trials for case, trials in self.trials.items() if case not in anew}
        return replace(self, trials=left, anew={case: why for case in anew if case not in self.failures})


def past_of(run: Path) -> tuple[Past, list[str]]:
    """The past of a run, and a notice for each line of its rows that could not be read, or is there twice."""
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
