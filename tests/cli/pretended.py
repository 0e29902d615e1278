"""Trials that only pretend to be made, for commands that are carried out in this process."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

from rows import outcome_of

from harness.core.layers.layer_lookup import Layer
from harness.core.model.case_grid import grid
from harness.core.model.sweep_axes import Case
from harness.core.results.stored_run import StoredRun, read_run_directory
from harness.core.run.executor import Executor
from harness.core.run.outcome import TrialOutcome

# The cases of a grid and the trials of a case: more would show no more.
_CASES = 24
_TRIALS = 12
_MACHINE = {"host": "here", "cpu": {"model": "pretended", "usable": 2}, "torch": {"version": "0", "gpu": None}}


class PretendedRunner(Executor):
    """Answers at once. float64 is wrong, what is long runs out of memory, and three lengths of four are steady.

    The machine is disturbed beside the fourth, and quiet at every check: no test waits.
    `out` is the directory that the last one was made for.
    """

    out: Path | None = None

    def __init__(self, *, compile_cache: Path, **configured: Any) -> None:
        super().__init__(compile_cache=compile_cache, **configured)
        PretendedRunner.out = compile_cache.parent
        self._trials: Counter[Case] = Counter()

    def start(self) -> None: ...

    def refused(self, cases: Iterable[Case]) -> dict[Case, tuple[str, str]]:
        """No layer refuses a case."""
        return {}

    def run(self, purpose: str, case: Case | None = None, extra: dict[str, Any] | None = None) -> TrialOutcome:
        """An outcome as a trial's would be."""
        return outcome_of(self._entries(purpose, case))

    def _entries(self, purpose: str, case: Case | None) -> dict[str, Any]:
        if case is None:
            return _MACHINE["torch"]
        if purpose == "describe":
            found = asdict(Layer(has_heads=True))
            return found if case.impl == "own:Layer" else {"status": "error", "reason": "absent"}
        if purpose == "verify" and case.dtype == "float64":
            return {"status": "incorrect", "reason": "off by\na lot"}
        if purpose == "facts":
            return {"status": "oom", "reason": "large"} if case.seq_len > 10**5 else {"peak_bytes": 1}
        return self._time(case) if purpose == "time" else {"probe_s": 1.0, "compile_s": 1.0, "compiled": False}

    def _time(self, case: Case) -> dict[str, Any]:
        self._trials[case] += 1
        # At last any limit on a case's time is reached, that no number of rounds takes for ever.
        wall_s = 0.1 if self._trials[case] < _TRIALS else 1e308
        unsteady = case.seq_len % 4 == 3
        return {"samples_s": [1.0 + unsteady * self._trials[case]], "probe_s": 1.0 + 0.3 * unsteady, "wall_s": wall_s}


@contextmanager
def pretending() -> Iterator[None]:
    """While it lasts: nothing is measured, no disk waited for, and of the report only the lines are made."""

    def build(run: Path, drawing: None, out: None, baseline: str | None) -> tuple[StoredRun, list[str]]:
        return read_run_directory(run), []

    with ExitStack() as stack:
        for target, replacement in {
            "harness.core.run.session.Executor": PretendedRunner,
            "harness.cli.stored_runs.BackgroundPlots": nullcontext,
            "harness.core.run.session.describe_machine": lambda *_: _MACHINE,
            "harness.core.run.session.grid": lambda *arguments: islice(grid(*arguments), _CASES),
            "harness.study.report.build.build": build,
            "harness.study.report.report_data.show_answer": lambda *_: None,
            "harness.study.report.report_data.next_steps": lambda *_: [],
            "os.fsync": lambda _: None,
        }.items():
            stack.enter_context(patch(target, replacement))
        yield
