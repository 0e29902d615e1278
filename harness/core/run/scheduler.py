"""Schedule a sweep's trials: verify, measure the facts, then time in rounds. Every outcome becomes a row.

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
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from harness.core.config import Precision
from harness.core.layers.layer_lookup import Layer, indivisible_size
from harness.core.model.case_grid import kinds_of
from harness.core.model.sweep_axes import AXES, Case
from harness.core.results.row import REOPEN, StoredRow, row_of, trial_of_record, trial_of_row
from harness.core.results.row_files import read_run
from harness.core.results.summarise import ProbeKind, Trials, duplicate_row_notices, probe_kind
from harness.core.stats.estimate import Trial, best_probe, is_quiet, stop_reason

from .executor import Executor
from .outcome import TrialOutcome

Failure = tuple[str, str | None]


@dataclass(frozen=True)
class ResumeState:
    """The finished work of a run, by case, from its rows: the state from which a sweep continues.

    - `trials`: timed trials, in their order.
    - `failures`: status and reason of each failed case. `reopened`: those of the failures to retry.
    - `rounds`: the highest round in any row, whether the trial counts or not. A new trial needs a higher one.
    - `compiles_s`: compile times in seconds. `hosts`: the hosts that timed the case.
    - `anew`: why the case is timed anew. Its old trials do not count.
    - `facts`: the cases with facts.
    """

    trials: Mapping[Case, list[Trial]] = field(default_factory=dict)
    failures: Mapping[Case, Failure] = field(default_factory=dict)
    reopened: Mapping[Case, Failure] = field(default_factory=dict)
    rounds: Mapping[Case, int] = field(default_factory=dict)
    compiles_s: Mapping[Case, float] = field(default_factory=dict)
    hosts: Mapping[Case, tuple[str, ...]] = field(default_factory=dict)
    anew: Mapping[Case, str] = field(default_factory=dict)
    facts: frozenset[Case] = frozenset()

    def reopening(self, statuses: Collection[str]) -> "ResumeState":
        """Return a copy with the failures of these statuses reopened."""
        again = {case: failure for case, failure in self.failures.items() if failure[0] in statuses}
        left = {case: failure for case, failure in self.failures.items() if case not in again}
        return replace(self, failures=left, reopened=again)

    def without_times_of(self, hosts: Collection[str], why: str) -> "ResumeState":
        """Return a copy in which the cases timed by any of these hosts are timed anew."""
        anew = {case for case, of_case in self.hosts.items() if not set(of_case).isdisjoint(hosts)}
        left = {case: trials for case, trials in self.trials.items() if case not in anew}
        return replace(self, trials=left, anew=dict.fromkeys(anew - self.failures.keys(), why))


# A sweep that begins.
NO_PAST = ResumeState()


def read_resume_state(run: Path) -> tuple[ResumeState, list[str]]:
    """Read the finished work of a run, and a notice for each unreadable or repeated row."""
    accumulated, notices = read_run(run)
    cases = [Case(*axes) for axes in accumulated.cases]
    timed = Trials(accumulated)
    trials = dict[Case, list[Trial]]()
    for place in timed.places.tolist():
        trial = trial_of_record(timed.records[place].tolist())
        trials.setdefault(cases[accumulated.trial_cases[place]], []).append(trial)

    def by_case(by_number: Mapping[int, Any]) -> dict[Case, Any]:
        return {cases[number]: value for number, value in by_number.items()}

    past = ResumeState(
        trials=trials,
        failures=by_case(accumulated.failures),
        rounds=by_case(accumulated.rounds),
        hosts=by_case(accumulated.hosts),
        compiles_s=by_case(accumulated.compiles_s),
        facts=frozenset(cases[number] for number in accumulated.facts),
    )
    return past, [*notices, *duplicate_row_notices(run, accumulated, timed)]


class RowSink(Protocol):
    """Stores rows."""

    def write(self, row: StoredRow) -> None: ...


class Watcher(Protocol):
    """Receives the progress of a sweep. A subclass ignores what it does not define."""

    def starting(self, phase: str, number: int) -> None:
        return

    def trial(self, purpose: str, case: Case, outcome: TrialOutcome) -> None:
        return

    def finished(self, case: Case, status: str) -> None:
        return

    def added(self, cases: Collection[Case]) -> None:
        return


# Seconds between two probes while waiting for a quiet machine. Disturbances last for seconds.
_PROBE_EVERY_S = 0.25
# Limit on the trials of a case, as a multiple of `max_rounds`, however disturbed the machine is.
_MAX_ROUNDS_FACTOR = 2


class DisturbanceControl:
    """Decides whether a case needs more trials, or repeats in a quiet moment, and waits for quiet moments.

    Trials are judged by their probe, compared with the best probe of all cases with the same device, threads and
    environment: another torch has another probe time.
    """

    def __init__(self, precision: Precision, executor: Executor, sleep: Callable[[float], None]) -> None:
        self._precision, self._executor, self._sleep = precision, executor, sleep
        self._best: dict[ProbeKind, float] = {}  # cached: a search through all trials is slow

    def update_best_probe(self, case: Case, trials: Sequence[Trial]) -> None:
        """Take new trials of the case into account."""
        best = best_probe(trials)
        if best is not None:
            kind = probe_kind(case)
            self._best[kind] = min(best, self._best.get(kind, best))

    def has_enough_trials(self, case: Case, trials: Sequence[Trial]) -> bool:
        """Whether the case needs no more trials, or has had all its rounds."""
        return len(trials) >= self._precision.max_rounds or self._may_stop(case, trials)

    def needs_quiet_repeat(self, case: Case, trials: Sequence[Trial]) -> bool:
        """Whether the case has too few quiet trials and may still get more."""
        return len(trials) < _MAX_ROUNDS_FACTOR * self._precision.max_rounds and not self._may_stop(case, trials)

    def _may_stop(self, case: Case, trials: Sequence[Trial]) -> bool:
        return stop_reason(trials, self._best.get(probe_kind(case)), self._precision) is not None

    def wait_for_quiet(self, case: Case, patience_s: float) -> float:
        """Wait for a quiet machine. Returns the rest of the patience in seconds, 0 or less if it ran out."""
        while patience_s > 0:
            probe_s = self._executor.run("probe", case).values.get("probe_s")
            if is_quiet(probe_s, self._best.get(probe_kind(case))):
                break
            self._sleep(_PROBE_EVERY_S)
            patience_s -= _PROBE_EVERY_S
        return patience_s


class Scheduler:
    """One sweep over `cases`.

    `layers` holds what is known of each layer. `past` is the finished work of the run. Along the
    axis `grow`, sizes beyond the cases are doubled until a layer fails.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        layers: Mapping[str, Layer],
        precision: Precision,
        executor: Executor,
        sink: RowSink,
        watcher: Watcher,
        seed: int = 0,
        sleep: Callable[[float], None] = time.sleep,
        past: ResumeState = NO_PAST,
        grow: str | None = None,
    ) -> None:
        self._disturbance, self._patience_s = DisturbanceControl(precision, executor, sleep), precision.patience_s
        self._layers = layers
        self._executor, self._sink, self._watcher = executor, sink, watcher
        self._random = random.Random(seed)
        self._cases, self._past, self._grow = cases, past, grow
        # The timed trials of every case that has not failed. Cases in `_open` need more of them.
        self._trials: dict[Case, list[Trial]] = {}
        self._open: set[Case] = set()
        self._rounds: dict[Case, int] = {}  # highest round in the rows of the case
        self._verified: dict[Case, TrialOutcome] = {}  # outcome of the verification, by kind
        self._compiled: set[Case] = set()  # cases whose verification showed that they compile
        self._open_cases(cases)

    def run(self) -> None:
        """Measure until every case is finished. After an exception or a signal, all rows so far are on disk."""
        self.prepare()
        self.time_in_rounds()

    def prepare(self) -> None:
        """Do everything but the timing: skip unsupported cases, verify, compile and measure the facts."""
        self._prepare(self._cases)
        if self._grow is not None:
            self._grow_along(self._grow)

    def _open_cases(self, cases: Collection[Case]) -> None:
        """Add the cases that have not failed, with the trials of their past."""
        for case in cases:
            if case not in self._past.failures:
                self._trials[case] = list(self._past.trials.get(case, ()))
                # Rows of earlier rounds may be lost, so the number of trials is not the highest round.
                self._rounds[case] = max(self._past.rounds.get(case, 0), len(self._trials[case]))
                self._disturbance.update_best_probe(case, self._trials[case])
                self._open.add(case)

    def _apply_past(self, cases: Collection[Case]) -> None:
        """Finish cases that need no more trials, and write a row for each reopened case."""
        past = self._past
        for case in sorted(cases):
            if case in past.failures:
                self._watcher.finished(case, past.failures[case][0])
            elif case in past.reopened:
                status, reason = past.reopened[case]
                self._record(REOPEN, case, TrialOutcome("ok", f"after {status}: {reason}"))
            if case in past.anew:
                self._record(REOPEN, case, TrialOutcome("ok", past.anew[case], {"anew": True}))
            if case in past.facts:
                self._finish_if_enough(case)

    def _prepare(self, cases: Collection[Case]) -> None:
        still_open = self._open.intersection
        self._apply_past(cases)
        for case in sorted(still_open(cases)):
            if reason := indivisible_size(case, self._layers[case.impl].has_heads):
                self._record("plan", case, TrialOutcome("unsupported", reason))
        self._verify(still_open(cases))
        # Each compiled case before its other trials, so that none of them has to compile.
        compiled = self._compiled.intersection(still_open(cases))
        compiles_s = self._past.compiles_s
        for case in compiled & compiles_s.keys():
            self._executor.compiling.learn("compile", case, TrialOutcome("ok", values={"compile_s": compiles_s[case]}))
        self._once("compile", compiled - compiles_s.keys())
        self._once("facts", still_open(cases) - self._past.facts)

    def _once(self, purpose: str, cases: set[Case]) -> None:
        if cases:
            self._watcher.starting(purpose, len(cases))
        for case in self._shuffled(cases):
            self._trial(purpose, case)

    def _grow_along(self, axis: str) -> None:
        """Double the largest size of each layer as long as its trials succeed."""
        ends = {case.at(axis, 1): case for case in sorted(self._cases)}
        largest = self._trials.keys() & ends.values()
        while largest:
            self._watcher.starting("grow", len(largest))
            for case in self._shuffled({case for case in largest if not self._trials[case]}):
                self._time(case)
            doubled = {case.at(axis, 2 * getattr(case, axis)) for case in self._trials.keys() & largest}
            larger = {case for case in doubled if getattr(case, axis) <= AXES[axis].most}
            self._watcher.added(larger)
            self._open_cases(larger)
            self._prepare(larger)
            largest = self._trials.keys() & larger

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
        self._repeat_disturbed()

    def _shuffled(self, cases: set[Case]) -> list[Case]:
        return self._random.sample(sorted(cases), len(cases))

    def _verify(self, cases: Collection[Case]) -> None:
        """Verify each kind of case once. The outcome becomes a row for every case of the kind."""
        self._watcher.starting("verify", len(cases))
        for kind, of_kind in kinds_of(cases).items():
            if kind not in self._verified:
                outcome = self._executor.run("verify", kind)
                self._verified[kind] = replace(outcome, values={"verified": kind.as_dict(), **outcome.values})
            outcome = self._verified[kind]
            if outcome.values.get("compiled"):
                self._compiled.update(of_kind)
            for case in of_kind:
                self._record("verify", case, outcome)

    def _time(self, case: Case) -> None:
        self._rounds[case] += 1
        row = self._trial("time", case, self._rounds[case])
        if row["status"] != "ok":
            return
        trial = trial_of_row(row)
        self._trials[case].append(trial)
        self._disturbance.update_best_probe(case, [trial])
        self._finish_if_enough(case)

    def _finish_if_enough(self, case: Case) -> None:
        if case in self._open and self._disturbance.has_enough_trials(case, self._trials[case]):
            self._finish(case, "ok")

    def _repeat_disturbed(self) -> None:
        """Repeat the disturbed cases in quiet moments. Disturbance is judged by the best probe of all trials."""
        patience_s = self._patience_s
        needs = self._disturbance.needs_quiet_repeat
        while waiting := {case for case, trials in self._trials.items() if needs(case, trials)}:
            self._watcher.starting("again", len(waiting))
            for case in self._shuffled(waiting):
                patience_s = self._disturbance.wait_for_quiet(case, patience_s)
                if patience_s <= 0:
                    return
                self._time(case)

    def _trial(self, purpose: str, case: Case, round_number: int = 0) -> StoredRow:
        return self._record(purpose, case, self._executor.run(purpose, case), round_number)

    def _record(self, purpose: str, case: Case, outcome: TrialOutcome, round_number: int = 0) -> StoredRow:
        """Write the row and return it. A failed trial finishes its case with its status. Round 0 stands for none."""
        layer, entries = self._layers[case.impl], outcome.entries
        if not outcome.ok and layer.own_axes is not None:
            # Without facts, nothing else tells which options of a case are sizes.
            entries = {"own_axes": layer.own_axes, **entries}
        row = row_of(case, layer.family, purpose, entries, round_number)
        self._sink.write(row)
        self._watcher.trial(purpose, case, outcome)
        if not outcome.ok:
            del self._trials[case]
            if case in self._open:
                self._finish(case, outcome.status)
        return row

    def _finish(self, case: Case, status: str) -> None:
        self._open.discard(case)
        self._watcher.finished(case, status)
