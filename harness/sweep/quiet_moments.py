"""Decide whether a case needs more trials, or repeats in a quiet moment, and wait for quiet moments."""

from collections.abc import Callable, Sequence

from harness.case import Case
from harness.config import Precision
from harness.stats.stopping import restless, stop_reason
from harness.stats.trials import Trial, best_pulse, quiet
from harness.sweep.protocols import TrialRunner

# Seconds between two probes while waiting for a quiet machine. Disturbances last for seconds.
_LOOK_EVERY_S = 0.25
# Limit on the trials of a case, as a multiple of `max_rounds`, however disturbed the machine is.
_MOST_ROUNDS = 2


class QuietMoments:
    """Judges trials by their probe, compared with the best probe of all cases with the same number of threads."""

    def __init__(self, precision: Precision, runner: TrialRunner, sleep: Callable[[float], None]) -> None:
        self._precision, self._runner, self._sleep = precision, runner, sleep
        self._best: dict[int, float] = {}  # by number of threads; cached, since a search through all trials is slow

    def note(self, case: Case, trials: Sequence[Trial]) -> None:
        """Update the best probe with new trials of the case."""
        best = best_pulse(trials)
        if best is not None:
            self._best[case.threads] = min(best, self._best.get(case.threads, best))

    def is_done(self, case: Case, trials: Sequence[Trial]) -> bool:
        """Whether the case needs no more trials, or has had all its rounds."""
        judged = trials, self._best.get(case.threads), self._precision
        return bool(stop_reason(*judged) or restless(*judged))

    def wants(self, case: Case, trials: Sequence[Trial]) -> bool:
        """Whether the case has too few quiet trials and may still get more."""
        return len(trials) < _MOST_ROUNDS * self._precision.max_rounds and (
            stop_reason(trials, self._best.get(case.threads), self._precision) is None
        )

    def wait(self, case: Case, patience_s: float) -> float:
        """Wait for a quiet machine. Returns the rest of the patience in seconds, 0 or less if it ran out."""
        while patience_s > 0:
            now = self._runner.run("pulse", case)
            seen = Trial((), pulse_s=now.get("pulse_s"))
            if quiet([seen], self._best.get(case.threads)):
                break
            self._sleep(_LOOK_EVERY_S)
            patience_s -= _LOOK_EVERY_S
        return patience_s
