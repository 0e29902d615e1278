"""Trials that only pretend to be made, for commands that are carried out in this process."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

from harness.case import Case, grid
from harness.measure.executor import Executor
from harness.report.build import Report
from harness.results.run_directory import read_run_directory

# Of a grid so many cases, of a case so many trials: more would tell no more.
_CASES = 24
_TRIALS = 12
_MACHINE = {"host": "here", "cpu": {"model": "pretended", "usable": 2}, "torch": {"version": "0", "gpu": None}}


class PretendedRunner(Executor):
    """Answers at once. float64 is wrong, what is long runs out of memory, and three lengths of four are steady.

    The machine is disturbed beside the fourth, and quiet whenever it is looked at: nobody waits.
    `out` is the directory that the last one was made for.
    """

    out: Path | None = None

    def __init__(self, *, compile_cache: Path, **configured: Any) -> None:
        super().__init__(compile_cache=compile_cache, **configured)
        PretendedRunner.out = compile_cache.parent
        self._trials: Counter[Case] = Counter()

    def start(self, compiles: bool = False, module: str = "") -> None: ...

    def run(self, purpose: str, case: Case | None = None, extra: dict[str, Any] | None = None) -> dict[str, Any]:
        """An outcome as a trial's would be."""
        done = {"status": "ok", "reason": None, "wall_s": 0.1, "start_s": 0.0}
        if case is None:
            return {**done, **_MACHINE["torch"]}
        if purpose == "describe":
            found = {"family": "own", "has_heads": True, "files": {}}
            return {**done, **found} if case.impl == "own:Layer" else {**done, "status": "error", "reason": "absent"}
        if purpose == "verify" and case.dtype == "float64":
            return {**done, "status": "incorrect", "reason": "off by\na lot"}
        if purpose == "facts":
            return {**done, "status": "oom", "reason": "large"} if case.seq_len > 10**5 else {**done, "peak_bytes": 1}
        if purpose == "time":
            return {**done, **self._time(case)}
        return {**done, "probe_s": 1.0, "compile_s": 1.0, "compiled": False}

    def _time(self, case: Case) -> dict[str, Any]:
        self._trials[case] += 1
        # At last any limit on a case's time is reached, that no number of rounds takes for ever.
        wall_s = 0.1 if self._trials[case] < _TRIALS else 1e308
        unsteady = case.seq_len % 4 == 3
        return {"samples_s": [1.0 + unsteady * self._trials[case]], "probe_s": 1.0 + 0.3 * unsteady, "wall_s": wall_s}


@contextmanager
def pretending() -> Iterator[None]:
    """While it lasts: nothing is measured, no disk waited for, and of the report only the lines are made."""

    def build(run: Path, studio: None) -> Report:
        stored = read_run_directory(run)
        return Report(stored.lines, None, stored.notices, ())  # type: ignore[arg-type]

    command = "harness.cli.sweep"
    with ExitStack() as stack:
        for target, replacement in {
            "harness.measure.session.Executor": PretendedRunner,
            f"{command}.BackgroundPlots": nullcontext,
            f"{command}.describe_machine": lambda _: _MACHINE,
            f"{command}.grid": lambda *arguments: islice(grid(*arguments), _CASES),
            "harness.cli.sweep.unsupported_cases": lambda *_: {},
            "harness.report.build.build": build,
            "harness.report.terminal.show_answer": lambda *_: None,
            "os.fsync": lambda _: None,
        }.items():
            stack.enter_context(patch(target, replacement))
        yield
