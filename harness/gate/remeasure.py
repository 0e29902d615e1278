"""Measure the cases of a baseline again, as a sweep of their own in a temporary directory."""

from collections.abc import Collection
from pathlib import Path
from types import TracebackType
from typing import Any

import yaml
from rich.console import Console

import harness
from harness import registry, store
from harness.analysis.claims_table import verdicts
from harness.analysis.fitted_laws import fit_laws
from harness.case import AXES, Case
from harness.config import SweepConfig
from harness.errors import UsageError
from harness.gate.baseline import Baseline, baseline_of
from harness.machine import describe_machine
from harness.measure.progress import Screen
from harness.measure.scheduler import Scheduler
from harness.measure.session import COMPILE_CACHE, describe_impl, runner_of
from harness.registry import Traits
from harness.results.summarise import summarise_run


class Remeasurement:
    """Measures cases as `sweep` measures a grid, each time into a separate run.

    The first run, `first`, is at the configured `out`, if one is set. `scratch` is an empty temporary directory, used
    for everything else. With `timed` the cases are timed; without it, only their facts are taken. A context manager:
    the processes that trials are forked from end with it.
    """

    def __init__(self, config: SweepConfig, scratch: Path, console: Console, timed: bool) -> None:
        self.first, self.second = config.out or scratch / "first", scratch / "second"
        self.timed = timed
        self._config, self._console = config, console
        store.check_new(self.first)
        self._runner = runner_of(config, scratch / COMPILE_CACHE)

    def __enter__(self) -> "Remeasurement":
        self._runner.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._runner.__exit__(kind, error, at)

    def take(self, cases: Collection[Case], out: Path) -> Baseline:
        """Measure the cases into a new run at `out`, and return the results as a baseline.

        If a layer can no longer be loaded, its cases end in error.
        """
        machine = describe_machine(self._runner.run("machine"))
        with store.Lock(out):
            self._measure(cases, out, machine)
        lines, _ = summarise_run(out, self._config.precision)
        laws = fit_laws(lines)
        found = verdicts(lines, laws)
        return baseline_of(lines, laws, found, machine, self._config.seed, harness.__version__)

    def _measure(self, cases: Collection[Case], out: Path, machine: dict[str, Any]) -> None:
        store.create(out, self._yaml(cases), machine)
        writer = store.RowWriter(out)
        try:
            traits, lost = self._traits(cases)
            for case in sorted(cases):
                if case.impl in lost:
                    writer.write(_lost_message(case, lost[case.impl]))
            left = [case for case in cases if case.impl in traits]
            with Screen(left, self._config.precision, self._console) as screen:
                sweep = Scheduler(left, traits, self._config.precision, self._runner, writer, screen, self._config.seed)
                if self.timed:
                    sweep.run()
                else:
                    sweep.prepare()
        finally:
            writer.close()

    def _traits(self, cases: Collection[Case]) -> tuple[dict[str, Traits], dict[str, str]]:
        """The traits of each layer that can be loaded, and the reason for each other layer."""
        traits, lost = {}, {}
        for impl in dict.fromkeys(case.impl for case in cases):
            try:
                registry.check_name(impl)
                traits[impl] = describe_impl(impl, self._runner)
            except UsageError as error:
                lost[impl] = str(error)
        return traits, lost

    def _yaml(self, cases: Collection[Case]) -> str:
        """The configuration as YAML, with the axes of the cases."""
        axes = {axis: sorted({getattr(case, axis) for case in cases}) for axis in AXES}
        return yaml.safe_dump({**yaml.safe_load(self._config.yaml), **axes}, sort_keys=False, allow_unicode=True)


def _lost_message(case: Case, reason: str) -> dict[str, Any]:
    return {
        "key": case.key,
        "case": case.as_dict(),
        "family": case.impl.partition(".")[0],
        "purpose": "plan",
        "round": 0,
        "status": "error",
        "reason": reason,
    }
