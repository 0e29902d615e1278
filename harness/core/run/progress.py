"""The progress display of a sweep: live on a terminal, plain lines elsewhere.

It is drawn only between trials. A drawing thread would disturb the timing of the layer.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from time import monotonic
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from harness.core.model.case_grid import kinds_of
from harness.core.model.formatting import duration
from harness.core.model.sweep_axes import Case

from .expected_time import REPORT_S, START_S, ExpectedTime
from .outcome import TrialOutcome
from .scheduler import NO_PAST, ResumeState

# Drawing takes a millisecond. More frequent updates would not be visible.
REDRAW_S = 0.2
PLAIN_LINE_S = 10.0
# With fewer trials, the time between them is not known yet.
_FEW_TRIALS = 20
_BAR = 12
# The phases as the reader counts them. The last one is the report, which this screen does not show.
_PHASES = {"verify": "1/4 verify", "compile": "1/4 compile", "facts": "2/4 count"}
_TIMING = "3/4 time"


class LiveOnTerminal:
    """A context manager that shows the live display on a terminal, and removes it at the end."""

    def __init__(self, console: Console, live: Live | Progress) -> None:
        self._console, self._live = console, live

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._console.is_terminal:
            self._live.stop()


class Screen(LiveOnTerminal):
    """Show the progress of a sweep over `cases`. A context manager: it removes the live line at its end.

    `expected` predicts the time of each trial, and learns from those that have ended. `past` is the finished work of an
    earlier sweep. Without `times`, no case will be timed.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        expected: ExpectedTime,
        console: Console,
        past: ResumeState = NO_PAST,
        times: bool = True,
    ) -> None:
        self.failures: Counter[str] = Counter()
        self._expected, self._times = expected, times
        self._phase = self._stage = ""
        self._looked_at, self._to_look_at = 0, 0  # cases, in a phase before the rounds
        self._began = self._last_drawn = monotonic()
        self._kinds = set(kinds_of(cases))  # that are not verified yet
        self._to_count = set(cases) - past.facts
        # The timed trials of each open case.
        self._timed = {case: len(past.trials.get(case, ())) for case in cases} if times else {}
        self._ended = self._again = 0  # timed trials of finished cases, and cases to repeat
        self._trials, self._trials_s = 0, 0.0  # those of this command, and their time
        self._again_since = 0.0
        bar = BarColumn(bar_width=_BAR, table_column=Column(min_width=_BAR))
        text = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))
        self._bar = Progress(bar, text, console=console, auto_refresh=False, transient=True)
        super().__init__(console, self._bar)
        self._task = self._bar.add_task("", total=1.0)

    def starting(self, phase: str, number: int) -> None:
        """A phase begins. For `round`, `number` is the round; for all other phases, the number of cases.

        The other phases are `verify`, `compile`, `facts`, `grow` and `again`.
        """
        self._looked_at = self._again = 0
        if phase in _PHASES:
            self._phase, self._stage, self._to_look_at = _PHASES[phase], "", number
        else:
            self._phase, self._stage, self._to_look_at = _TIMING, phase, 0
            self._kinds.clear()
            self._to_count.clear()  # cases that continue have their facts already
        if phase == "round":
            self._stage = f"round {number}"
        elif phase == "again":
            self._again, self._again_since = number, self._again_since or monotonic()
        if not self._console.is_terminal:
            self._plain()

    def added(self, cases: Collection[Case]) -> None:
        """The sweep has added these cases."""
        self._kinds |= set(kinds_of(cases))
        self._to_count |= set(cases)
        if self._times:
            self._timed.update(dict.fromkeys(cases, 0))

    def trial(self, purpose: str, case: Case, outcome: TrialOutcome) -> None:
        """A trial has ended. The outcome of a verification counts once for all cases of its kind."""
        self._looked_at += 1
        kind = case.small() if purpose == "verify" else case
        self._trials += 1
        self._trials_s += outcome.wall_s or 0.0
        if outcome.wall_s is not None and (purpose != "verify" or kind in self._kinds):
            self._expected.learn(purpose, kind, outcome.values, outcome.wall_s)
        if purpose == "verify":
            self._kinds.discard(kind)
        elif purpose == "facts":
            self._to_count.discard(case)
        elif purpose == "time":
            self._again = max(0, self._again - 1)
            if case in self._timed:
                self._timed[case] += 1
            else:
                self._ended += 1
        self._draw(case)

    def finished(self, case: Case, status: str) -> None:
        """A case needs no more trials."""
        self._ended += self._timed.pop(case, 0)
        self._to_count.discard(case)
        if status != "ok":
            self.failures[status] += 1
        self._draw(case)

    def _draw(self, case: Case) -> None:
        now = monotonic()
        if self._console.is_terminal:
            if now - self._last_drawn >= REDRAW_S:
                self._last_drawn = now
                share, line = self._line(str(case))
                self._bar.update(self._task, completed=share, description=line, refresh=True)
        elif now - self._last_drawn >= PLAIN_LINE_S:
            self._last_drawn = now
            self._plain()

    def _plain(self) -> None:
        elapsed = monotonic() - self._began
        self._console.out(f"{elapsed:5.0f} s  {self._line()[1]}")

    def _line(self, case: str = "") -> tuple[float, str]:
        """The share of the time that has passed, and the line: phase, trials, share, time left, failures, case."""
        still = {timed: max(1, self._expected.trials(timed) - number) for timed, number in self._timed.items()}
        ended = self._ended + sum(self._timed.values())
        elapsed = monotonic() - self._began
        left_s = sum(number * self._expected.trial_s(timed) for timed, number in still.items())
        left_s += sum(map(self._expected.facts_s, self._to_count)) + sum(map(self._expected.verify_s, self._kinds))
        trials_left = sum(still.values()) + len(self._to_count) + len(self._kinds)
        # Between two trials, rows are written and cases are judged.
        between_s = max(0.0, elapsed - START_S - self._trials_s) / max(_FEW_TRIALS, self._trials)
        left_s += trials_left * between_s + self._repeats_s()
        share = elapsed / (elapsed + left_s + REPORT_S)
        failed = " ".join(f"{number} {status}" for status, number in sorted(self.failures.items()))
        trials = f"{ended}/{ended + sum(still.values()) + self._again} trials"
        done = f"{self._looked_at}/{self._to_look_at} cases" if self._to_look_at else trials
        left = f"{duration(left_s + REPORT_S)} left"
        parts = (f"[{self._phase}]", done, f"{100 * share:.0f} %", left, self._stage, failed, case)
        return share, "  ".join(filter(None, parts))

    def _repeats_s(self) -> float:
        """The longest time that the repeats in quiet moments may still take, waiting included."""
        if not self._again:
            return 0.0
        waited = monotonic() - self._again_since
        repeats_s = self._again * self._trials_s / max(1, self._trials)
        return repeats_s + max(0.0, self._expected.precision.patience_s - waited)
