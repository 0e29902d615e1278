"""Whether a case needs no more trials, or other ones in a quieter moment, and waiting for that."""

from collections.abc import Callable, Sequence

from harness.case import Case
from harness.config import Precision
from harness.stats.stopping import restless, stop_reason
from harness.stats.trials import Trial, best_pulse, quiet
from harness.sweep.protocols import TrialRunner

# Between two looks at whether the machine is quiet again, in seconds: short against a disturbance of seconds.
_LOOK_EVERY_S = 0.25
# No case gets more than so many times its rounds, however restless the machine.
_MOST_ROUNDS = 2


class QuietMoments:
    """Trials are judged by the best pulse of all cases with as many threads."""

    def __init__(self, precision: Precision, runner: TrialRunner, sleep: Callable[[float], None]) -> None:
        self._precision, self._runner, self._sleep = precision, runner, sleep
        self._best: dict[int, float] = {}  # by the number of threads; kept, as looking through all takes long

    def note(self, case: Case, trials: Sequence[Trial]) -> None:
        """Trials of the case have come in."""
        best = best_pulse(trials)
        if best is not None:
            self._best[case.threads] = min(best, self._best.get(case.threads, best))

    def is_done(self, case: Case, trials: Sequence[Trial]) -> bool:
        """Whether it has had its rounds, or fewer and needs no more."""
        judged = trials, self._best.get(case.threads), self._precision
        return bool(stop_reason(*judged) or restless(*judged))

    def wants(self, case: Case, trials: Sequence[Trial]) -> bool:
        """Whether its trials were disturbed, and it may have more."""
        return len(trials) < _MOST_ROUNDS * self._precision.max_rounds and (
            stop_reason(trials, self._best.get(case.threads), self._precision) is None
        )

    def wait(self, case: Case, patience_s: float) -> float:
        """What is left of the patience once the machine is quiet; 0 or less if it did not get so in time."""
        while patience_s > 0:
            now = self._runner.run("pulse", case)
            seen = Trial((), pulse_s=now.get("pulse_s"))
            if quiet([seen], self._best.get(case.threads)):
                break
            self._sleep(_LOOK_EVERY_S)
            patience_s -= _LOOK_EVERY_S
        return patience_s
