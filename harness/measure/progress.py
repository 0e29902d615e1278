"""The progress display of a sweep: a live line on a terminal, plain lines elsewhere.

It is drawn only between trials. A drawing thread would disturb the timing of the layer.
"""

import time
from collections import Counter
from collections.abc import Collection, Sequence

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column

from harness.config import Precision
from harness.formatting import duration
from harness.measure.outcome import TrialOutcome
from harness.sweep_axes import Case

# Drawing takes a millisecond. More frequent updates would not be visible.
_REDRAW_S = 0.2
_PLAIN_LINE_S = 10.0
_BAR = 12
# These phases finish no case. Without a count of their own, they would appear to make no progress.
_BEFORE_ROUNDS = ("verify", "compile", "facts")


class Screen:
    """Show the progress of a sweep over `cases`. A context manager: it removes the live line at its end."""

    def __init__(self, cases: Sequence[Case], precision: Precision, console: Console) -> None:
        self.failures: Counter[str] = Counter()
        self._console = console
        self._cases = len(cases)
        self._done = 0
        self._phase = ""
        self._looked_at, self._to_look_at = 0, 0  # cases, in a phase before the rounds
        self._began = self._last_drawn = time.monotonic()
        self._timed_trials = 0
        self._timed_s = 0.0
        # The bar counts trials. An open case has its facts and its rounds ahead.
        self._trials_a_case = 1 + precision.max_rounds
        self._trials_left = dict.fromkeys(cases, self._trials_a_case)
        self._live = Progress(
            BarColumn(bar_width=_BAR, table_column=Column(min_width=_BAR)),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")),
            console=console,
            auto_refresh=False,
            transient=True,
        )
        self._task: TaskID = self._live.add_task("", total=sum(self._trials_left.values()))

    def __enter__(self) -> "Screen":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *raised: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def starting(self, phase: str, number: int) -> None:
        """A phase begins. For `round`, `number` is the round; for all other phases, the number of cases.

        The other phases are `verify`, `compile`, `facts`, `grow` and `again`.
        """
        self._phase = f"round {number}" if phase == "round" else phase
        self._looked_at, self._to_look_at = 0, number if phase in _BEFORE_ROUNDS else 0
        if not self._console.is_terminal:
            self._plain()

    def added(self, cases: Collection[Case]) -> None:
        """The sweep has added these cases."""
        self._cases += len(cases)
        self._trials_left.update(dict.fromkeys(cases, self._trials_a_case))
        self._live.update(self._task, total=self._cases * self._trials_a_case)

    def trial(self, case: Case, outcome: TrialOutcome) -> None:
        """A trial has ended."""
        self._looked_at += 1
        if "samples_s" in outcome.values:
            self._timed_trials += 1
            self._timed_s += outcome.wall_s or 0.0
        if "samples_s" in outcome.values or "peak_bytes" in outcome.values:
            self._trials_left[case] = max(0, self._trials_left[case] - 1)
        self._draw(case)

    def finished(self, case: Case, status: str) -> None:
        """A case needs no more trials."""
        self._done += 1
        self._trials_left[case] = 0
        if status != "ok":
            self.failures[status] += 1
        self._draw(case)

    def _draw(self, case: Case) -> None:
        now = time.monotonic()
        if self._console.is_terminal:
            if now - self._last_drawn >= _REDRAW_S:
                self._last_drawn = now
                total = self._live.tasks[self._task].total or 0
                completed = total - sum(self._trials_left.values())
                self._live.update(self._task, completed=completed, description=self._line(str(case)))
                self._live.refresh()
        elif now - self._last_drawn >= _PLAIN_LINE_S:
            self._last_drawn = now
            self._plain()

    def _plain(self) -> None:
        elapsed = time.monotonic() - self._began
        self._console.out(f"{elapsed:5.0f} s  {self._line()}", highlight=False)

    def _line(self, case: str = "") -> str:
        looked_at = f"{self._looked_at}/{self._to_look_at}" if self._to_look_at else ""
        failed = " ".join(f"{number} {status}" for status, number in sorted(self.failures.items()))
        done = f"{self._done}/{self._cases} cases done"
        parts = (f"{self._phase} {looked_at}".rstrip(), done, self._time_left(), failed, case)
        return "  ".join(filter(None, parts))

    def _time_left(self) -> str:
        """An upper bound on the time left: it assumes that every open case needs all its rounds."""
        if not self._timed_trials:
            return ""
        seconds = self._timed_s / self._timed_trials * sum(self._trials_left.values())
        return f"at most {duration(seconds)} left"
