"""The session's measurements, all made with one runner and its fork server.

Each case's facts are taken once, its times once per precision.
"""

import contextlib
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.sweep.runner import Runner

if TYPE_CHECKING:
    from harness.case import Case
    from harness.catalog import Traits
    from harness.config import Precision
    from harness.summary import Line

_SEED = 0
# A trial that takes facts and lasts longer than this counts as hanging.
_TIMEOUT_S = 60.0
_TRIAL_S = 0.1


class Measuring:
    """Runs the sweep's own trials and keeps their rows for the session.

    `told` holds the lines of the session's summary. The fork server begins to start at once.
    """

    def __init__(self) -> None:
        self.told: dict[str, str] = {}
        self._facts: dict[Case, list[dict[str, Any]]] = {}
        self._times: dict[tuple[Case, str], list[dict[str, Any]]] = {}
        self._traits: dict[str, Traits] = {}
        self._started: tuple[Any, ...] | None = None
        self._runner: Runner | None = None
        self._cache: tempfile.TemporaryDirectory[str] | None = None
        self._run(_TRIAL_S, _TIMEOUT_S).start()

    def traits(self, impl: str) -> "Traits":
        """The traits of the impl. A trial inspects a layer that is not built in.

        Raises UsageError if the layer cannot be loaded.
        """
        from harness.sweep.configured import describe_impl

        if impl not in self._traits:
            self._traits[impl] = describe_impl(impl, self._any_runner())
        return self._traits[impl]

    def has_gpu(self) -> bool:
        """Whether torch sees a CUDA device."""
        return bool(self._any_runner().run("machine").get("gpu"))

    def facts(self, cases: Iterable["Case"], precision: "Precision") -> "list[Line]":
        """Verify the cases and return their exact facts. The line of a failed case says why."""
        cases = list(cases)
        missing = [case for case in cases if case not in self._facts]
        if missing:
            rows = _Rows()
            with self._unless_stopped():
                self._sweep(missing, precision, self._any_runner(), rows).prepare()
            self._facts.update(rows.by_case)
        return self._lines([row for case in cases for row in self._facts[case]], precision)

    def times(self, cases: Sequence["Case"], precision: "Precision", more: bool = False) -> "list[Line]":
        """Return the facts and times of the cases. With `more`, measure as many rounds again and add them."""
        self.facts(cases, precision)
        fine = [case for case in cases if self._facts[case][-1]["status"] == "ok"]
        missing = [case for case in fine if more or (case, repr(precision)) not in self._times]
        if missing:
            rows = _Rows()
            runner = self._run(precision.trial_s, precision.timeout_s)
            with self._unless_stopped():
                self._sweep(missing, precision, runner, rows).time_in_rounds()
            for case in missing:
                kept = self._times.setdefault((case, repr(precision)), [])
                before = max((row["round"] for row in kept), default=0)
                kept += [row | {"round": row["round"] + before} for row in rows.by_case.get(case, ())]
        timed = [row for case in fine for row in self._times[case, repr(precision)]]
        rounds = max((row["round"] for row in timed), default=0)
        limits = replace(precision, max_rounds=max(precision.max_rounds, rounds))
        return self._lines([row for case in cases for row in self._facts[case]] + timed, limits)

    def close(self) -> None:
        """End every process that was started. Measurements are kept."""
        if self._runner is not None:
            self._runner.__exit__(None, None, None)
            self._runner = None
        if self._cache is not None:
            self._cache.cleanup()
            self._cache = None

    @contextlib.contextmanager
    def _unless_stopped(self) -> Iterator[None]:
        """End all processes if the test is stopped while measuring, for example by its time limit.

        A trial may still be running then.
        """
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _lines(self, rows: Sequence[Mapping[str, Any]], precision: "Precision") -> "list[Line]":
        from harness.summary import summarise

        return summarise(rows, precision)

    def _sweep(self, cases: Sequence["Case"], precision: "Precision", runner: Runner, rows: "_Rows") -> Any:
        from harness.sweep.driver import Sweep

        traits = {case.impl: self.traits(case.impl) for case in cases}
        return Sweep(cases, traits, precision, runner, rows, _NoScreen(), _SEED)

    def _any_runner(self) -> Runner:
        """The current runner, or a new one. Facts do not depend on the sampling time."""
        return self._run(*(self._started[1:] if self._started else (_TRIAL_S, _TIMEOUT_S)))

    def _run(self, trial_s: float, timeout_s: float) -> Runner:
        """The runner for these limits. A new one starts if they or `sys.path` have changed, for example by a test."""
        wanted = (tuple(sys.path), trial_s, timeout_s)
        if self._runner is None or self._started != wanted:
            self.close()
            self._cache = tempfile.TemporaryDirectory(prefix="attn-harness-", ignore_cleanup_errors=True)
            self._started, self._runner = (
                wanted,
                Runner(
                    seed=_SEED,
                    trial_s=trial_s,
                    timeout_s=timeout_s,
                    memory_limit=None,
                    compile_cache=Path(self._cache.name),
                ),
            )
        return self._runner


class _Rows:
    """A sink for a sweep's rows, which keeps them by case."""

    def __init__(self) -> None:
        self.by_case: dict[Case, list[dict[str, Any]]] = {}

    def write(self, row: Mapping[str, Any]) -> None:
        from harness.case import Case

        self.by_case.setdefault(Case.from_dict(row["case"]), []).append(dict(row))


class _NoScreen:
    """A watcher that shows nothing: pytest owns the screen."""

    def starting(self, phase: str, number: int) -> None: ...
    def trial(self, case: "Case", outcome: Mapping[str, Any]) -> None: ...
    def finished(self, case: "Case", status: str) -> None: ...
    def added(self, cases: "Collection[Case]") -> None: ...
