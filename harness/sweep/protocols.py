"""Interfaces that a sweep needs: a runner of trials, a sink for rows and a watcher for progress."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from harness.case import Case


class TrialRunner(Protocol):
    """Runs trials: `harness.sweep.runner.Runner`, or any object that returns an outcome for a case."""

    def run(self, purpose: str, case: Case | None = None) -> dict[str, Any]: ...
    def learn(self, purpose: str, case: Case, outcome: Mapping[str, Any]) -> None: ...


class Sink(Protocol):
    """Stores rows."""

    def write(self, row: Mapping[str, Any]) -> None: ...


class Watcher(Protocol):
    """Receives the progress of a sweep."""

    def starting(self, phase: str, number: int) -> None: ...
    def trial(self, case: Case, outcome: Mapping[str, Any]) -> None: ...
    def finished(self, case: Case, status: str) -> None: ...
    def added(self, cases: Collection[Case]) -> None: ...
