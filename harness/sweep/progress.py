"""What the screen shows while a sweep runs: a live line on a terminal, plain lines elsewhere.

It is drawn only between trials, never beside one: a thread that draws would be timed with the layer.
"""

import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from harness.case import Case
from harness.config import Precision

# Drawing takes a millisecond; more often than this nobody sees.
_REDRAW_S = 0.2
_PLAIN_LINE_S = 10.0


class Screen:
    """Watches a sweep of `cases` cases. A context manager: the live line is gone after it."""

    def __init__(self, cases: int, precision: Precision, console: Console) -> None:
        self.failures: Counter[str] = Counter()
        self._console = console
        self._precision = precision
        self._cases = cases
        self._done = 0
        self._phase = ""
        self._round = 0
        self._began = self._last_drawn = time.monotonic()
        self._timed_trials = 0
        self._timed_s = 0.0
        self._live = Progress(
            TextColumn("{task.fields[phase]:<9}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TextColumn("cases  {task.fields[left]}  {task.fields[failures]}  {task.fields[case]}", markup=False),
            console=console,
            auto_refresh=False,
            transient=True,
        )
        self._task: TaskID = self._live.add_task("", total=cases, phase="", left="", failures="", case="")

    def __enter__(self) -> "Screen":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def starting(self, phase: str, number: int) -> None:
        """A phase begins: `verify`, `facts` or `again` of so many, or round `number`."""
        self._phase = f"round {number}" if phase == "round" else phase
        self._round = number if phase == "round" else 0
        if not self._console.is_terminal:
            self._plain()

    def trial(self, case: Case, outcome: Mapping[str, Any]) -> None:
        """A trial has ended."""
        if "samples_s" in outcome:
            self._timed_trials += 1
            self._timed_s += outcome["wall_s"]
        self._draw(case)

    def finished(self, case: Case, status: str) -> None:
        """A case needs no more trials."""
        self._done += 1
        if status != "ok":
            self.failures[status] += 1
        self._draw(case)

    def _draw(self, case: Case) -> None:
        now = time.monotonic()
        if self._console.is_terminal:
            if now - self._last_drawn >= _REDRAW_S:
                self._last_drawn = now
                self._live.update(
                    self._task,
                    completed=self._done,
                    phase=self._phase,
                    left=self._time_left(),
                    failures=self._failed(),
                    case=str(case),
                )
                self._live.refresh()
        elif now - self._last_drawn >= _PLAIN_LINE_S:
            self._last_drawn = now
            self._plain()

    def _plain(self) -> None:
        elapsed = time.monotonic() - self._began
        parts = [
            f"{elapsed:5.0f} s",
            self._phase,
            f"{self._done}/{self._cases} cases",
            self._time_left(),
            self._failed(),
        ]
        self._console.print("  ".join(part for part in parts if part), markup=False, highlight=False)

    def _time_left(self) -> str:
        """At most: as if every open case needed all its rounds."""
        if not self._round or not self._timed_trials:
            return ""
        rounds = self._precision.max_rounds - self._round + 1
        seconds = self._timed_s / self._timed_trials * (self._cases - self._done) * rounds
        return f"at most {seconds / 60:.0f} min left" if seconds >= 90 else f"at most {seconds:.0f} s left"

    def _failed(self) -> str:
        return " ".join(f"{number} {status}" for status, number in sorted(self.failures.items()))
