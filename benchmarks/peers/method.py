"""What a method of measuring must offer, and what those have in common that measure in one process."""

import json
import os
import statistics
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from harness.core.model.sweep_axes import Case

# What a method gives: by the name of the statistic that it reports, seconds a call of each case.
Readings = dict[str, dict[Case, float]]

_TESTS = Path(__file__).parents[2] / "tests"
_LEAST_SHARE_S = 0.02
# Short, but long against the few calls that a method makes before it keeps to any time.
_PROBE_SHARE_S = 0.2


class Method(Protocol):
    """One way to measure; `short` heads a column. `isolation` says in words what is fresh for each number."""

    name: str
    short: str
    isolation: str

    def measure(self, cases: Sequence[Case], wall_s: float) -> Readings:
        """One repeat, in processes of its own, that takes `wall_s` seconds in all, their start included."""
        ...


class OneProcess(ABC):
    """A method that measures all cases in one process, the same time each, after a start of that process.

    What the start takes is learned from the repeats before, so that a repeat takes the wall time asked of it.
    """

    name: str
    short: str
    isolation: str

    def __init__(self) -> None:
        self._starts_s: list[float] = []

    def probe(self, cases: Sequence[Case]) -> None:
        """Learn what the start takes, from a short repeat that does not count."""
        self._timed(cases, _PROBE_SHARE_S)

    def measure(self, cases: Sequence[Case], wall_s: float) -> Readings:
        # The lower of two middle ones: a start that a neighbour made long must not cost the method its time.
        start_s = statistics.median_low(self._starts_s)
        return self._timed(cases, max(_LEAST_SHARE_S, (wall_s - start_s) / len(cases)))

    @abstractmethod
    def run(self, cases: Sequence[Case], share_s: float) -> Readings:
        """Measure each case for about `share_s` seconds, in a fresh process."""

    def _timed(self, cases: Sequence[Case], share_s: float) -> Readings:
        began = time.monotonic()
        readings = self.run(cases, share_s)
        self._starts_s.append(time.monotonic() - began - share_s * len(cases))
        return readings


def child(arguments: Sequence[str], *, request: Any = None, env: Mapping[str, str] | None = None) -> str:
    """What `python <arguments>` prints, given `request` as JSON. Raises RuntimeError with its last words."""
    path = os.pathsep.join([str(_TESTS), str(_TESTS.parent), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    done = subprocess.run(
        [sys.executable, *arguments],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **(env or {})},
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)} failed:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout
