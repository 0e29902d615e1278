"""The output directory of a sweep: it holds a new run, a run to continue, or a run that replaces one set aside."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from harness.core.config import SweepConfig
from harness.core.config.compose import as_list, differences
from harness.core.config.machine import Machine, changed_gpu_settings, unlike
from harness.core.config.schema import HERE
from harness.core.layers import layer_files, layer_lookup
from harness.core.layers.layer_lookup import Layer
from harness.core.model import file_io
from harness.core.model.errors import UsageError, ended_by_changed_code, notify, usage_error_about
from harness.core.model.extra_tables import entries, referenced
from harness.core.model.sweep_axes import DEFAULTS, Case
from harness.core.results import run_directory, summarise
from harness.core.results.columns import CaseResult

from .scheduler import NO_PAST, ResumeState, read_resume_state
from .session import Session

# Key in machine.json of the layers' code, by impl.
CODE = "layers"
# Number of differences that an error message lists.
_MOST_TOLD = 6


def launchers() -> list[Any]:
    """Return the modules of extras that start the trials of a sweep elsewhere.

    - `CLUSTERS`: the values of `launcher.cluster` that it starts.
    - `check_settings(config)`: raises UsageError if they are not available.
    - `check_nobody_measures(target)`: raises UsageError if trials that it started may still write to the directory.
    - `launch(target, session, cases, console)`: measures the missing cases. Returns whether the run is complete.
    - `shards_table(run, lines)`: the progress of each shard as a table; None for a run without shards.
    """
    return [referenced(place) for place in entries("LAUNCHERS")]


def launcher_of(config: SweepConfig) -> Any:
    """Return the launcher of the configured cluster; None if trials run here.

    Raises UsageError if no extra has it, or if it is not available.
    """
    if config.launcher.cluster == HERE:
        return None
    for launcher in launchers():
        if config.launcher.cluster in launcher.CLUSTERS:
            launcher.check_settings(config)
            return launcher
    raise UsageError(f"launcher={config.launcher.cluster}: it needs the extra harness/extras/cluster")


@dataclass(frozen=True)
class OutputDirectory:
    """The directory at `path` that a sweep writes to. With `continues`, it holds a run to continue."""

    path: Path
    config: SweepConfig
    fresh: bool
    continues: bool

    @classmethod
    def of(cls, config: SweepConfig, fresh: bool = False) -> "OutputDirectory":
        """The configured directory, or a new one under `results/` named after the current time. Writes nothing.

        With `fresh`, an existing run is not continued. Raises UsageError if a run can be neither continued nor created.
        """
        path = config.out or run_directory.unused_path()
        return cls(path, config, fresh, _continues(path, config, fresh))

    @property
    def uses_launcher(self) -> bool:
        """Whether the sweep measures in jobs on a cluster or in processes of their own."""
        return self.config.launcher.cluster != HERE

    def check_code(self, layers: Mapping[str, Layer]) -> None:
        """Raise UsageError if a layer's code has changed and the run would keep rows of the old code.

        Runs of older versions do not store the code of their layers. They pass this check.
        """
        changed_files = self._changed(code_digests(layers)) if self.continues else {}
        if not changed_files:
            return
        past = read_resume_state(self.path)[0].reopening(self.config.retry)
        kept = changed_files.keys() & {case.impl for case in (*past.trials, *past.facts)}
        ended = {(case.impl, status) for case, (status, _) in past.failures.items() if case.impl in changed_files}
        rows = {*kept, *dict(ended)}
        text = [f"{impl} in {', '.join(files)}" for impl, files in changed_files.items() if impl in rows]
        # A layer that has no numbers yet may be measured again: nothing mixes with its new code.
        statuses = ",".join(sorted({status for _, status in ended}))
        again = "" if kept else f", or take them again with retry={statuses}"
        changed = [f"changed since: {'; '.join(text)}"] if text else []
        _raise_if_different(self.path, "has rows of other code", changed, again)

    def check_options(self, session: Session, cases: Sequence[Case]) -> None:
        """Raise UsageError if the run has cases of other options. An option at its default is the same as none."""
        then = run_directory.read_config(self.path) if self.continues else None
        if not then:
            return
        axes = self.config.axes
        options = [str(text) for text in as_list(then.get("options", DEFAULTS["options"]))]
        changes = differences({"options": options}, {"options": [*axes["options"]]})
        then_config = replace(self.config, axes={**axes, "options": tuple(options)})
        if changes and {*session.cases(then_config)} != {*cases}:
            _raise_if_different(self.path, "is another sweep", changes)

    def _changed(self, code: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
        machine, _ = run_directory.read_machine(self.path / run_directory.MACHINE)
        before = machine.get(CODE) or {}
        return {
            impl: files
            for impl, now in code.items()
            if impl in before and (files := layer_files.changed_files(before[impl], now))
        }

    def check_machine(self, machine: Machine) -> None:
        """Raise UsageError if the sweep measures here and its times cannot be compared with those of the run."""
        if self.uses_launcher or not self.continues:
            return
        for before in run_directory.machines(self.path)[0].values():
            _raise_if_different(self.path, "was measured on another machine", unlike(before, machine))
            for difference in changed_gpu_settings(before, machine):
                notify(
                    f"out={self.path}: {difference}: times may differ from those of the run. "
                    "To start anew, give another out="
                )

    def begin(self, machine: Machine, layers: Mapping[str, Layer]) -> None:
        """Create the run, or update what a continued run stores. With `fresh`, set an existing run aside first.

        A corrected figure in a paper's file needs no new measurement. `check_code` has made sure that no results of
        changed code are kept. Raises UsageError if another sweep has just created the run.
        """
        code = code_digests(layers)
        if self.continues:
            self._update_paper()
            if self._changed(code):
                with usage_error_about(f"out={self.path}"):
                    stored = file_io.read_json(self.path / run_directory.MACHINE)
                    file_io.write_json(self.path / run_directory.MACHINE, {**stored, CODE: code})
            return
        if run_directory.is_run(self.path) or run_directory.lacks_config(self.path):
            if not self.fresh:
                raise UsageError(
                    f"out={self.path}: another sweep has just created this run: repeat the command to continue it"
                )
            notify(f"what was in {self.path} is now in {run_directory.set_aside(self.path)}")
        run_directory.create(self.path, self.config.record, {**machine, CODE: code})

    def _update_paper(self) -> None:
        before = run_directory.read_config(self.path)
        if before is not None and self.config.paper and before.get("paper") != self.config.paper:
            renewed = {**before, "paper": yaml.safe_load(self.config.yaml)["paper"]}
            text = yaml.safe_dump(renewed, sort_keys=False, allow_unicode=True)
            file_io.write_atomically(self.path / run_directory.CONFIG, text)

    def measure(self, session: Session, cases: Sequence[Case], console: Console) -> Mapping[Case, int] | None:
        """Measure the cases. Return how many trials each case has, or None if the sweep was interrupted."""
        past, grow = self.past(cases, console), self.config.grow
        try:
            with ended_by_changed_code(self.path):
                return session.measure_into(self.path, cases, console, past=past, grow=grow).trials
        except KeyboardInterrupt:
            return None
        finally:
            session.executor.drop()  # only an interrupted trial can still be running

    def past(self, cases: Sequence[Case], console: Console) -> ResumeState:
        """The finished work of the run, without the failures to retry. Prints how far the run has come."""
        if not self.continues:
            return NO_PAST
        past, notices = read_resume_state(self.path)
        notify(*notices)
        with_rows = past.trials.keys() | past.failures.keys() | past.facts
        begun = with_rows.intersection(cases)
        more = len(with_rows) - len(begun)
        grown = f", and {more} more, to which it has grown" if more else ""
        console.out(f"{self.path}: continued; {len(begun)} of {len(cases)} cases have rows{grown}")
        left = Counter(past.failures[case][0] for case in begun & past.failures.keys())
        again = [status for status in left if status not in ("unsupported", *self.config.retry)]
        if again:
            ended = ", ".join(f"{left[status]} {status}" for status in again)
            text = f"of these ended without a time: {ended}; retry={','.join(again)} takes them again"
            console.out(text)
        return past.reopening(self.config.retry)

    def finished(self) -> dict[Case, str]:
        """The status of each case of the run that will not be measured again."""
        lines = summarise.summarise_run(self.path, self.config.precision)[0] if self.continues else []
        retry = self.config.retry
        return {line.case: line.status for line in lines if line.is_finished and line.status not in retry}

    def unfinished(self, cases: Sequence[Case], lines: Sequence[CaseResult], trials: Mapping[Case, int]) -> str:
        """Say how many cases have no stop reason and fewer trials than the sweep has measured; empty if none.

        This happens if rows cannot be read back. `trials` holds the measured numbers; a case without one needs
        `min_rounds` trials. A case that has all its trials but no stop reason is finished: the sweep was right to stop,
        and a better probe has since shown that some trials were disturbed.
        """
        least = self.config.precision.min_rounds
        finished = {line.case for line in lines if line.is_finished or line.trials >= trials.get(line.case, least)}
        left = len({*cases, *trials} - finished)  # the rows may hold cases of others
        number = f"{left} cases are" if left > 1 else "1 case is"
        return f"{number} unfinished: run the same command with 'out={self.path}' again" if left else ""


def _continues(out: Path, config: SweepConfig, fresh: bool) -> bool:
    """Whether `out` holds a run to continue."""
    if fresh and (run_directory.is_run(out) or run_directory.lacks_config(out)):
        return False
    if run_directory.lacks_config(out):
        text = f"out={out} has rows/ and no {run_directory.CONFIG}: put that back, or give --fresh to set it aside"
        raise UsageError(text)
    if not run_directory.is_run(out):
        run_directory.check_new(out)
        return False
    before = None
    with suppress(OSError):
        before = run_directory.read_config(out)
    if before is None:
        raise UsageError(f"{out / run_directory.CONFIG} is not a sweep's configuration: --fresh sets that run aside")
    now = yaml.safe_load(config.yaml)
    # An axis added since had its default. Options are compared once their defaults are known.
    then = {**DEFAULTS, **before, "options": now.get("options")}
    _raise_if_different(out, "is another sweep", differences(then, now))
    return True


def code_digests(layers: Mapping[str, Layer]) -> dict[str, dict[str, str]]:
    """The digests of each layer's files, by impl, in the form in which a run stores them."""
    here, ours = Path.cwd(), {layer_files.BUILTIN: layer_files.digest(layer_files.builtin_files())}
    return {
        impl: layer_files.shown_digests(layer.files, here) if layer_lookup.is_foreign(impl) else ours
        for impl, layer in layers.items()
    }


def _raise_if_different(out: Path, what: str, changes: list[str], otherwise: str = "") -> None:
    if changes:
        more = f"; and {len(changes) - _MOST_TOLD} more" if len(changes) > _MOST_TOLD else ""
        text = "; ".join(changes[:_MOST_TOLD])
        raise UsageError(f"out={out} {what} ({text}{more}): name another, or give --fresh to set it aside{otherwise}")
