"""What a sweep is driven between: where its trials run, where its rows go, and who is told."""

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from harness.case import Case


class TrialRunner(Protocol):
    """Where trials run: `harness.sweep.runner.Runner`, or anything that gives an outcome for a case."""

    def run(self, purpose: str, case: Case | None = None) -> dict[str, Any]: ...
    def learn(self, purpose: str, case: Case, outcome: Mapping[str, Any]) -> None: ...


class Sink(Protocol):
    """Where rows go."""

    def write(self, row: Mapping[str, Any]) -> None: ...


class Watcher(Protocol):
    """Who is told how the sweep goes."""

    def starting(self, phase: str, number: int) -> None: ...
    def trial(self, case: Case, outcome: Mapping[str, Any]) -> None: ...
    def finished(self, case: Case, status: str) -> None: ...
    def added(self, cases: Collection[Case]) -> None: ...
