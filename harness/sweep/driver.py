"""Drive a sweep: verify, take the facts, then time in rounds, every outcome a row.

    verify  each kind of case once, small, against its reference
    facts   each case once: memory and which kernel ran, in a process of its own
    round   every unfinished case once, in a new random order; again until none is left

A burst of noise is so spread over the cases of a round instead of ruining one of them.
"""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.case import Case
from harness.catalog import Traits, unsupported_reason
from harness.config import Precision
from harness.stats.stopping import stop_reason


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


@dataclass
class _Progress:
    """What the sweep knows of a case so far."""

    trials: list[list[float]] = field(default_factory=list)
    spent_s: float = 0.0


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
    ) -> None:
        self.precision = precision
        self._traits = traits
        self._runner, self._sink, self._watcher = runner, sink, watcher
        self._random = random.Random(seed)
        self._open = {case: _Progress() for case in cases}

    def run(self) -> None:
        """Measure until every case is finished. An exception from the runner or a signal leaves all rows written."""
        self._set_aside_unsupported()
        self._verify()
        self._watcher.starting("facts", len(self._open))
        for case in self._in_random_order():
            self._trial("facts", case, 0)
        number = 0
        while self._open:
            number += 1
            self._watcher.starting("round", number)
            for case in self._in_random_order():
                self._time(case, number)

    def _in_random_order(self) -> list[Case]:
        return self._random.sample(list(self._open), len(self._open))

    def _set_aside_unsupported(self) -> None:
        for case in list(self._open):
            reason = unsupported_reason(case, self._traits[case.impl].has_heads)
            if reason:
                self._record("plan", case, 0, {"status": "unsupported", "reason": reason})

    def _verify(self) -> None:
        """One verification for all cases of a kind; what it finds holds for each of them."""
        kinds: dict[Case, list[Case]] = {}
        for case in self._open:
            kinds.setdefault(case.small(), []).append(case)
        self._watcher.starting("verify", len(kinds))
        for kind, cases in kinds.items():
            outcome = {**self._runner.run("verify", kind), "verified": kind.as_dict()}
            for case in cases:
                self._record("verify", case, 0, outcome)

    def _time(self, case: Case, number: int) -> None:
        outcome = self._trial("time", case, number)
        if outcome["status"] != "ok":
            return
        so_far = self._open[case]
        so_far.trials.append(outcome["samples_s"])
        so_far.spent_s += outcome["wall_s"]
        if stop_reason(so_far.trials, so_far.spent_s, self.precision):
            self._finish(case, "ok")

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
            self._finish(case, outcome["status"])

    def _finish(self, case: Case, status: str) -> None:
        del self._open[case]
        self._watcher.finished(case, status)
