"""Drive a sweep: verify, measure the facts, then time in rounds. Every outcome becomes a row.

    verify  one small case of each kind, against its reference
    compile each compiled case once: measures the compile time, and later trials load the code
    facts   each case once, in a separate process: memory, and which kernel ran
    grow    optional: double the largest size, prepare it alike and time it once, until a trial fails
    round   every unfinished case once, in a new random order, until all are finished
    again   cases with too few quiet trials after their rounds, in quiet moments

Rounds spread a burst of noise over all cases instead of ruining one of them. A sweep that continues a run verifies the
unfinished cases again and measures only the missing trials.
"""

import random
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from harness.case import Case
from harness.catalog import Traits, unsupported_reason
from harness.config import Precision
from harness.stats.trials import Trial
from harness.summary.fold import REOPEN
from harness.summary.past import Past
from harness.summary.trial_row import trial_of
from harness.sweep.growing import doubled_along, largest_along
from harness.sweep.protocols import Sink, TrialRunner, Watcher
from harness.sweep.quiet_moments import QuietMoments

# The protocols are exported too: callers of `Sweep` implement them.
__all__ = ["Sink", "Sweep", "TrialRunner", "Watcher"]


class Sweep:
    """One sweep over `cases`.

    `traits` holds the family of each layer and whether it has heads. `past` is the finished work of the run. Along the
    axis `grow`, sizes beyond the cases are doubled until a layer fails.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        traits: Mapping[str, Traits],
        precision: Precision,
        runner: TrialRunner,
        sink: Sink,
        watcher: Watcher,
        seed: int = 0,
        sleep: Callable[[float], None] = time.sleep,
        past: Past | None = None,
        grow: str | None = None,
    ) -> None:
        self._moments, self._patience_s = QuietMoments(precision, runner, sleep), precision.patience_s
        self._traits = traits
        self._runner, self._sink, self._watcher = runner, sink, watcher
        self._random = random.Random(seed)
        self._cases, self._past, self._grow = cases, past or Past(), grow
        # The timed trials of every case that has not failed. Cases in `_open` need more of them.
        self._trials: dict[Case, list[Trial]] = {}
        self._open: set[Case] = set()
        self._rounds: dict[Case, int] = {}  # highest round in the rows of the case
        self._verified: dict[Case, dict[str, Any]] = {}  # outcome of the verification, by kind
        self._compiled: set[Case] = set()  # cases whose verification showed that they compile
        self._begin(cases)

    def run(self) -> None:
        """Measure until every case is finished. After an exception or a signal, all rows so far are on disk."""
        self.prepare()
        self.time_in_rounds()

    def prepare(self) -> None:
        """Do everything but the timing: skip unsupported cases, verify, compile and measure the facts."""
        self._prepare(self._cases)
        if self._grow is not None:
            self._go_on_along(self._grow)

    def _begin(self, cases: Collection[Case]) -> None:
        """Add the cases that have not failed, with the trials of their past."""
        for case in cases:
            if case not in self._past.failures:
                self._trials[case] = list(self._past.trials.get(case, ()))
                # Rows of earlier rounds may be lost, so the number of trials is not the highest round.
                self._rounds[case] = max(self._past.rounds.get(case, 0), len(self._trials[case]))
                self._moments.note(case, self._trials[case])
                self._open.add(case)

    def _set_aside_done(self, cases: Collection[Case]) -> None:
        """Finish cases that need no more trials, and write a row for each reopened case."""
        for case in sorted(cases):
            if case in self._past.failures:
                self._watcher.finished(case, self._past.failures[case][0])
            elif case in self._past.reopened:
                status, reason = self._past.reopened[case]
                self._record(REOPEN, case, 0, {"status": "ok", "reason": f"after {status}: {reason}"})
            if case in self._past.anew:
                self._record(REOPEN, case, 0, {"status": "ok", "reason": self._past.anew[case], "anew": True})
            if case in self._open and case in self._past.facts and self._moments.is_done(case, self._trials[case]):
                self._finish(case, "ok")

    def _prepare(self, cases: Collection[Case]) -> None:
        self._set_aside_done(cases)
        self._set_aside_unsupported(self._open.intersection(cases))
        self._verify(self._open.intersection(cases))
        self._compile(self._open.intersection(cases))
        lacking = self._open.intersection(cases) - self._past.facts
        if lacking:
            self._watcher.starting("facts", len(lacking))
        for case in self._shuffled(lacking):
            self._trial("facts", case, 0)

    def _go_on_along(self, axis: str) -> None:
        """Double the largest size of each layer as long as its trials succeed."""
        front = {case for case in largest_along(axis, self._cases) if case in self._trials}
        while front:
            self._watcher.starting("grow", len(front))
            for case in self._shuffled({case for case in front if not self._trials[case]}):
                self._time(case)
            larger = doubled_along(axis, (case for case in front if case in self._trials))
            self._watcher.added(larger)
            self._begin(larger)
            self._prepare(larger)
            front = {case for case in larger if case in self._trials}

    @property
    def trials(self) -> dict[Case, int]:
        """Number of timed trials of each case that has not failed, including those of earlier sweeps."""
        return {case: len(trials) for case, trials in self._trials.items()}

    @property
    def open(self) -> set[Case]:
        """The cases that are not finished."""
        return set(self._open)

    def time_in_rounds(self) -> None:
        """Time every open case in rounds, then repeat the disturbed cases in quiet moments."""
        number = min((len(self._trials[case]) for case in self._open), default=0)
        while self._open:
            number += 1
            self._watcher.starting("round", number)
            for case in self._shuffled(self._open):
                self._time(case)
        self._again()

    def _shuffled(self, cases: set[Case]) -> list[Case]:
        return self._random.sample(sorted(cases), len(cases))

    def _set_aside_unsupported(self, cases: Collection[Case]) -> None:
        for case in sorted(cases):
            reason = unsupported_reason(case, self._traits[case.impl].has_heads)
            if reason:
                self._record("plan", case, 0, {"status": "unsupported", "reason": reason})

    def _verify(self, cases: Collection[Case]) -> None:
        """Verify each kind of case once. The outcome becomes a row for every case of the kind."""
        kinds: dict[Case, list[Case]] = {}
        for case in sorted(cases):
            kinds.setdefault(case.small(), []).append(case)
        self._watcher.starting("verify", len(cases))
        for kind, of_kind in kinds.items():
            if kind not in self._verified:
                self._verified[kind] = {"verified": kind.as_dict(), **self._runner.run("verify", kind)}
            outcome = self._verified[kind]
            if outcome.get("compiled"):
                self._compiled.update(of_kind)
            for case in of_kind:
                self._record("verify", case, 0, outcome)

    def _compile(self, cases: Collection[Case]) -> None:
        """Compile each compiled case before its other trials, so that none of them has to."""
        compiled = self._compiled.intersection(cases)
        for case in compiled & self._past.compiles_s.keys():
            self._runner.learn("compile", case, {"compile_s": self._past.compiles_s[case]})
        lacking = compiled - self._past.compiles_s.keys()
        if lacking:
            self._watcher.starting("compile", len(lacking))
        for case in self._shuffled(lacking):
            self._trial("compile", case, 0)

    def _time(self, case: Case) -> None:
        self._rounds[case] += 1
        outcome = self._trial("time", case, self._rounds[case])
        if outcome["status"] != "ok":
            return
        trial = trial_of(outcome)
        self._trials[case].append(trial)
        self._moments.note(case, [trial])
        if case in self._open and self._moments.is_done(case, self._trials[case]):
            self._finish(case, "ok")

    def _again(self) -> None:
        """Repeat the disturbed cases in quiet moments. Disturbance is judged by the best probe of all trials."""
        patience_s = self._patience_s
        while waiting := {case for case in self._trials if self._moments.wants(case, self._trials[case])}:
            self._watcher.starting("again", len(waiting))
            for case in self._shuffled(waiting):
                patience_s = self._moments.wait(case, patience_s)
                if patience_s <= 0:
                    return
                self._time(case)

    def _trial(self, purpose: str, case: Case, number: int) -> dict[str, Any]:
        outcome = self._runner.run(purpose, case)
        self._record(purpose, case, number, outcome)
        return outcome

    def _record(self, purpose: str, case: Case, number: int, outcome: dict[str, Any]) -> None:
        """Write the row. A failed trial finishes its case with the trial's status."""
        self._sink.write(
            {
                "key": case.key,
                "case": case.as_dict(),
                "family": self._traits[case.impl].family,
                "purpose": purpose,
                "round": number,
                "at": round(time.time(), 3),
                **outcome,
            }
        )
        self._watcher.trial(case, outcome)
        if outcome["status"] != "ok":
            del self._trials[case]
            if case in self._open:
                self._finish(case, outcome["status"])

    def _finish(self, case: Case, status: str) -> None:
        self._open.discard(case)
        self._watcher.finished(case, status)
