"""Drive a sweep: verify, take the facts, then time in rounds, every outcome a row.

    verify  each kind of case once, small, against its reference
    compile each case that compiles once: how long that takes, and for the trials after it, which load what was made
    facts   each case once: memory and which kernel ran, in a process of its own
    grow    if asked to: twice the largest size, prepared alike and timed once, as long as that ends well
    round   every unfinished case once, in a new random order; again until none is left
    again   what the machine disturbed in every round, in quiet moments

A burst of noise is so spread over the cases of a round instead of ruining one of them. A sweep that goes on where an
earlier one has ended verifies again what is not finished, and measures only what is missing.
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

# With those that it is driven between, for whoever drives one.
__all__ = ["Sink", "Sweep", "TrialRunner", "Watcher"]


class Sweep:
    """One sweep over `cases`. `traits` tells each impl's family and whether it has heads; `past`, what is done.

    `grow`: an axis along which sizes are doubled, beyond the cases, until a layer gives out.
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
        # Every case that has not failed, with its timed trials; `_open` are those that need more.
        self._trials: dict[Case, list[Trial]] = {}
        self._open: set[Case] = set()
        self._rounds: dict[Case, int] = {}  # the highest round that a row of the case holds
        self._verified: dict[Case, dict[str, Any]] = {}  # by kind, what came of it
        self._compiled: set[Case] = set()  # as their verification has shown
        self._begin(cases)

    def run(self) -> None:
        """Measure until every case is finished. An exception from the runner or a signal leaves all rows written."""
        self.prepare()
        self.time_in_rounds()

    def prepare(self) -> None:
        """Everything but the timing: what cannot be is set aside, layers are verified and compiled, facts are taken."""
        self._prepare(self._cases)
        if self._grow is not None:
            self._go_on_along(self._grow)

    def _begin(self, cases: Collection[Case]) -> None:
        """Begin with the cases, or go on with them where their past ends."""
        for case in cases:
            if case not in self._past.failures:
                self._trials[case] = list(self._past.trials.get(case, ()))
                # Rows of earlier rounds may be lost, so the number of trials is not the highest round.
                self._rounds[case] = max(self._past.rounds.get(case, 0), len(self._trials[case]))
                self._moments.note(case, self._trials[case])
                self._open.add(case)

    def _set_aside_done(self, cases: Collection[Case]) -> None:
        """What needs no more trials has come to its end before; and what is opened again says so in a row."""
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
        """Double the largest size of each layer as long as a trial there ends well."""
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
        """How many timed trials each case has that has not failed, earlier sweeps' included."""
        return {case: len(trials) for case, trials in self._trials.items()}

    @property
    def open(self) -> set[Case]:
        """The cases that are not finished."""
        return set(self._open)

    def time_in_rounds(self) -> None:
        """The timed part alone, of every case that has not failed."""
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
        """One verification for all cases of a kind; what it finds holds for each of them."""
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
        """Before anything else of a case that compiles: no other trial is to pay for it."""
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
        """Repeat, in quiet moments, the cases whose trials were disturbed, as judged by the best pulse of all."""
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
        """Write the row; a case whose trial failed is finished, with that trial's status."""
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
