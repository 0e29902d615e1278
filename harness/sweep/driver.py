"""Drive a sweep: verify, take the facts, then time in rounds, every outcome a row.

    verify  each kind of case once, small, against its reference
    compile each case that compiles once: how long that takes, and for the trials after it, which load what was made
    facts   each case once: memory and which kernel ran, in a process of its own
    round   every unfinished case once, in a new random order; again until none is left
    again   what the machine disturbed in every round, in quiet moments

A burst of noise is so spread over the cases of a round instead of ruining one of them.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from harness.case import Case
from harness.catalog import Traits, unsupported_reason
from harness.config import Precision
from harness.stats.stopping import restless, stop_reason
from harness.stats.trials import Trial, best_pulse, quiet
from harness.summary.trial_row import trial_of

# Between two looks at whether the machine is quiet again, in seconds: short against a disturbance of seconds.
_LOOK_EVERY_S = 0.25
# No case gets more than so many times its rounds, however restless the machine.
_MOST_ROUNDS = 2


class TrialRunner(Protocol):
    """Where trials run: `harness.sweep.runner.Runner`, or anything that gives an outcome for a case."""

    def run(self, purpose: str, case: Case | None = None) -> dict[str, Any]: ...


class Sink(Protocol):
    """Where rows go."""

    def write(self, row: Mapping[str, Any]) -> None: ...


class Watcher(Protocol):
    """Who is told how the sweep goes."""

    def starting(self, phase: str, number: int) -> None: ...
    def trial(self, case: Case, outcome: Mapping[str, Any]) -> None: ...
    def finished(self, case: Case, status: str) -> None: ...


class Sweep:
    """One sweep over `cases`. `traits` tells each impl's family and whether it has heads."""

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
    ) -> None:
        self._precision = precision
        self._traits = traits
        self._runner, self._sink, self._watcher, self._sleep = runner, sink, watcher, sleep
        self._random = random.Random(seed)
        # Every case that has not failed, with its timed trials; `_open` are those that need more.
        self._trials: dict[Case, list[Trial]] = {case: [] for case in cases}
        self._open = set(cases)
        self._compiled: set[Case] = set()  # as their verification has shown

    def run(self) -> None:
        """Measure until every case is finished. An exception from the runner or a signal leaves all rows written."""
        self.prepare()
        self.time_in_rounds()

    def prepare(self) -> None:
        """Everything but the timing: what cannot be is set aside, layers are verified and compiled, facts are taken."""
        self._set_aside_unsupported()
        self._verify()
        self._compile()
        self._watcher.starting("facts", len(self._open))
        for case in self._shuffled(self._open):
            self._trial("facts", case, 0)

    @property
    def open(self) -> set[Case]:
        """The cases that are not finished."""
        return set(self._open)

    def time_in_rounds(self) -> None:
        """The timed part alone, of every case that has not failed."""
        number = 0
        while self._open:
            number += 1
            self._watcher.starting("round", number)
            for case in self._shuffled(self._open):
                self._time(case)
        self._again()

    def _shuffled(self, cases: set[Case]) -> list[Case]:
        return self._random.sample(sorted(cases), len(cases))

    def _set_aside_unsupported(self) -> None:
        for case in sorted(self._open):
            reason = unsupported_reason(case, self._traits[case.impl].has_heads)
            if reason:
                self._record("plan", case, 0, {"status": "unsupported", "reason": reason})

    def _verify(self) -> None:
        """One verification for all cases of a kind; what it finds holds for each of them."""
        kinds: dict[Case, list[Case]] = {}
        for case in sorted(self._open):
            kinds.setdefault(case.small(), []).append(case)
        self._watcher.starting("verify", len(kinds))
        for kind, cases in kinds.items():
            outcome = {**self._runner.run("verify", kind), "verified": kind.as_dict()}
            if outcome.get("compiled"):
                self._compiled.update(cases)
            for case in cases:
                self._record("verify", case, 0, outcome)

    def _compile(self) -> None:
        """Before anything else of a case that compiles: no other trial is to pay for it."""
        cases = self._compiled & self._open
        if cases:
            self._watcher.starting("compile", len(cases))
        for case in self._shuffled(cases):
            self._trial("compile", case, 0)

    def _time(self, case: Case) -> None:
        outcome = self._trial("time", case, len(self._trials[case]) + 1)
        if outcome["status"] != "ok":
            return
        self._trials[case].append(trial_of(outcome))
        judged = self._trials[case], self._best_pulse(case), self._precision
        if case in self._open and (stop_reason(*judged) or restless(*judged)):
            self._finish(case, "ok")

    def _again(self) -> None:
        """Repeat, in quiet moments, the cases whose trials were disturbed, as judged by the best pulse of all."""
        patience = self._precision.patience_s
        while waiting := {case for case in self._trials if self._wants_quiet(case)}:
            self._watcher.starting("again", len(waiting))
            for case in self._shuffled(waiting):
                patience = self._wait_for_quiet(case, patience)
                if patience <= 0:
                    return
                self._time(case)

    def _wants_quiet(self, case: Case) -> bool:
        trials = self._trials[case]
        return len(trials) < _MOST_ROUNDS * self._precision.max_rounds and (
            stop_reason(trials, self._best_pulse(case), self._precision) is None
        )

    def _wait_for_quiet(self, case: Case, patience: float) -> float:
        """What is left of the patience once the machine is quiet; 0 or less if it did not get so in time."""
        while patience > 0:
            now = self._runner.run("pulse", case)
            seen = Trial((), pulse_s=now.get("pulse_s"))
            if quiet([seen], self._best_pulse(case)):
                break
            self._sleep(_LOOK_EVERY_S)
            patience -= _LOOK_EVERY_S
        return patience

    def _best_pulse(self, case: Case) -> float | None:
        return best_pulse([t for other, ts in self._trials.items() if other.threads == case.threads for t in ts])

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
