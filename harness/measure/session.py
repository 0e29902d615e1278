"""The one way to measure: a `Session` runs trials of layers, and an `OutputDirectory` holds the run that they fill.

    sweep, check, calibrate, jobs on a cluster, pytest  →  Session  →  Scheduler   →  Executor
    compare, and the pairs of check                     →  Session  →  time_pairs  →  Executor
    verify                                              →  Session                 →  Executor

The output directory holds a new run, a run to continue, or a run that replaces one set aside.
"""

import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import yaml
from rich.console import Console

from harness import file_io, gpus, layer_files, layer_lookup, other_names
from harness.background_process import check_interpreter, interpreter_of
from harness.case_grid import grid
from harness.config import Precision, SweepConfig
from harness.config.compose import as_list, differences
from harness.config.schema import HERE
from harness.errors import UsageError
from harness.layer_lookup import Traits
from harness.machine import ENVIRONMENTS, changed_gpu_settings, describe_machine, unlike, versions_text, with_gpus_of
from harness.measure.described_layers import DescribedLayers
from harness.measure.executor import Executor
from harness.measure.expected_time import ExpectedTime, extrapolated_costs, measured_rates
from harness.measure.fork_client import OF_DRIVER, Runtime
from harness.measure.progress import Screen
from harness.measure.scheduler import ResumeState, RowSink, Scheduler, Watcher, read_resume_state
from harness.results import row_files, run_directory, summarise
from harness.results.columns import CaseResult
from harness.sweep_axes import DEFAULTS, OWN_ENVIRONMENT, Case, device_kind

# The directory of compiled code, below the output directory, shared by the run's trials. It exists only if a layer
# compiles.
COMPILE_CACHE = "compile-cache"
# What to do with cases: everything, all but the timing, or the timing alone.
Phase = Literal["all", "prepare", "time"]
# A sweep that takes longer first counts what small calls do, in seconds, to know how long it takes.
_LONG_SWEEP_S = 100.0


@dataclass(frozen=True)
class Plan:
    """What a sweep would measure.

    - `cases`: all of the grid. `left`: those to measure.
    - `finished`: those that an earlier sweep finished.
    - `refused`: the status and reason of each case that cannot be measured.
    - `expected`: how long the cases that are left take
    """

    cases: Sequence[Case]
    left: Sequence[Case]
    finished: Collection[Case]
    refused: Mapping[Case, tuple[str, str]]
    expected: ExpectedTime


class Session:
    """Starts the processes that trials run in, examines layers, and measures cases.

    `traits` holds the traits of the layers described so far. A context manager: its processes end with it. `devices`
    are those of the cases.
    """

    def __init__(self, executor: Executor, precision: Precision, seed: int, devices: Sequence[str] = ()) -> None:
        self.executor, self.precision, self.seed, self.devices = executor, precision, seed, devices
        self.traits: dict[str, Traits] = {}
        self.layers = DescribedLayers(executor)

    @classmethod
    def of(cls, config: SweepConfig, compile_cache: Path | None = None, runtime: Runtime = OF_DRIVER) -> "Session":
        """A session as configured, whose trials run in `runtime`, or in the environments of their cases.

        Raises UsageError if trials cannot run in one of them.
        """
        environments = config.axes["env"]
        for environment in environments:
            if environment != OWN_ENVIRONMENT:
                check_interpreter(interpreter_of(environment))
        executor = Executor(
            seed=config.seed,
            trial_s=config.precision.trial_s,
            timeout_s=config.precision.timeout_s,
            memory_limit=config.memory_limit,
            compile_timeout_s=config.compile_timeout_s,
            compile_cache=compile_cache,
            runtime=runtime,
            environments=environments,
        )
        return cls(executor, config.precision, config.seed, config.axes["device"])

    def __enter__(self) -> "Session":
        self.executor.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.executor.drop()

    def describe(self, impl: str) -> Traits:
        """The traits of a layer, as `DescribedLayers` finds them."""
        if impl not in self.traits:
            self.traits[impl] = self.layers.traits(impl)
        return self.traits[impl]

    def has_heads(self, impl: str) -> bool:
        """Whether the layer has heads. Raises UsageError as `describe` does."""
        return self.describe(impl).has_heads

    def cases(self, config: SweepConfig) -> list[Case]:
        """The cases of the configured grid. All its layers are described first."""
        for impl in config.axes["impl"]:
            self.describe(impl)
        lacked = self.layers.lacked(config)
        for name, impls in lacked.items():
            print(f"harness: {', '.join(impls)}: no option '{name}', so measured without it", file=sys.stderr)
        return self.layers.usual(grid(config.axes, self.has_heads, config.points), lacked)

    def indivisible_size(self, case: Case) -> str | None:
        """Say which size of the case is not divisible as its layer needs it; None if all are."""
        return layer_lookup.indivisible_size(case, self.has_heads(case.impl))

    def refused(self, cases: Sequence[Case], finished: Collection[Case]) -> dict[Case, tuple[str, str]]:
        """The status and reason of each refused case, judged by its numbers first and then by its layer."""
        by_numbers = {case: self.indivisible_size(case) for case in cases}
        refused = {case: ("unsupported", reason) for case, reason in by_numbers.items() if reason}
        return refused | self.executor.refused(case for case in cases if case not in refused and case not in finished)

    def plan(self, cases: Sequence[Case], finished: Collection[Case]) -> Plan:
        """What a sweep of the cases would measure, and how long that would take. Nothing is timed.

        To know what calls do, this counts the facts of each layer at three small sizes.
        """
        refused = self.refused(cases, finished)
        left = [case for case in cases if case not in finished and case not in refused]
        expected = ExpectedTime(
            self.precision, measured_rates(self.executor, left), extrapolated_costs(self.executor, left)
        )
        return Plan(cases, left, finished, refused, expected)

    def check_devices(self, config: SweepConfig) -> None:
        """Raise UsageError if the configuration uses a GPU that torch does not see."""
        wanted = [device for device in config.axes["device"] if device != "cpu"]
        for environment in self.executor.environments if wanted else ():
            seen = self._seen_gpus(environment)
            where = "here" if environment == OWN_ENVIRONMENT else f"in env={environment}"
            for device in wanted:
                kind, _, number = device.partition(":")
                of_kind = seen.get(kind, {})
                if not of_kind.get("count"):
                    raise UsageError(_no_gpu(kind, where, seen, config.paper.get("scale") == "full"))
                if int(number or 0) >= of_kind["count"]:
                    last = of_kind["count"] - 1
                    known = f"'device={kind}:0' to 'device={kind}:{last}'" if last else f"'device={kind}'"
                    raise UsageError(f"device={device}: torch sees no such device {where}: type {known}")

    def _seen_gpus(self, environment: str) -> dict[str, Any]:
        seen: dict[str, Any] = self.executor.within(environment).ask("machine").values.get("devices", {})
        return seen

    def visible_gpus(self, config: SweepConfig) -> list[str] | None:
        """The GPUs that the cases' devices may be, as `harness.gpus` names them. None without such cases."""
        kind = next((kind for kind in map(device_kind, config.axes["device"]) if kind in gpus.NUMBERED), None)
        if kind is None:
            return None
        return gpus.entries(kind, self._seen_gpus(self.executor.environments[0]).get(kind, {}).get("count", 0))

    def machine(self, usable: int | None = None, impls: Iterable[str] = ()) -> dict[str, Any]:
        """The description of the machine, with `usable` CPUs, the cases' GPUs and the packages of the layers `impls`.

        If the cases name environments, the first describes the machine, with the versions in each. The layers are then
        those described so far. Raises UsageError if torch cannot report it.
        """
        environments = self.executor.environments
        if tuple(environments) == (OWN_ENVIRONMENT,):
            return self._machine_within(OWN_ENVIRONMENT, usable, impls)
        found = {one: self._machine_within(one, usable, self.traits) for one in environments}
        return {**found[environments[0]], ENVIRONMENTS: {name: versions_text(one) for name, one in found.items()}}

    def _machine_within(self, environment: str, usable: int | None, impls: Iterable[str]) -> dict[str, Any]:
        modules = [package for package in map(layer_lookup.package_of, impls) if package]
        facts = self.executor.within(environment).ask("machine", extra={"modules": modules})
        if not facts.ok:
            raise UsageError(f"the machine could not be described ({facts.status}: {facts.reason}): try again")
        return with_gpus_of(describe_machine(facts.values, usable, self.executor.runtime.variables), self.devices)

    def measure(
        self,
        cases: Sequence[Case],
        rows: RowSink,
        watcher: Watcher,
        phase: Phase = "all",
        past: ResumeState | None = None,
        grow: str | None = None,
        order: int = 0,
    ) -> Scheduler:
        """Measure the cases into `rows`. Return the scheduler, which knows the number of trials of each case.

        `order` makes the random order within rounds another one.
        """
        traits = {case.impl: self.describe(case.impl) for case in cases}
        seed = self.seed + order
        scheduler = Scheduler(cases, traits, self.precision, self.executor, rows, watcher, seed, past=past, grow=grow)
        {"all": scheduler.run, "prepare": scheduler.prepare, "time": scheduler.time_in_rounds}[phase]()
        return scheduler

    def measure_into(
        self,
        out: Path,
        cases: Sequence[Case],
        console: Console,
        phase: Phase = "all",
        past: ResumeState | None = None,
        grow: str | None = None,
        order: int = 0,
        first: Sequence[Mapping[str, Any]] = (),
        expected: ExpectedTime | None = None,
    ) -> Scheduler:
        """Measure the cases into the run at `out`, and show the progress. `first` are rows to write before."""
        writer = row_files.RowWriter(out)
        try:
            for row in first:
                writer.write(row)
            times = {case: len(trials) for case, trials in past.trials.items()} if past else {}
            counted = past.facts if past else ()
            expected = expected or ExpectedTime(self.precision)
            with Screen(cases, expected, console, times, counted, phase != "prepare") as screen:
                return self.measure(cases, writer, screen, phase, past, grow, order)
        finally:
            writer.close()


def _no_gpu(kind: str, where: str, seen: Mapping[str, Any], is_published: bool) -> str:
    """What is wrong with a kind of GPU that torch does not see, and what to type."""
    instead = "; scale=cpu is for a machine without one" if is_published else ""
    lacking = seen.get(kind, {}).get("lacking")
    usable = [other for other, one in seen.items() if one.get("count")]
    typed = f"; type 'device={(*usable, 'cpu')[0]}'" if kind != "cuda" else ""
    more = f"{instead}{f'; {lacking}' if lacking else ''}{typed}"
    return f"device={kind}: torch sees no {kind.upper()} device {where}{more}"


# Key in machine.json of the layers' code, by impl.
CODE = "layers"
# Number of differences that an error message lists.
_MOST_TOLD = 6
# Stop reason in `summary.csv` of a case that needs more trials.
UNFINISHED = "interrupted"


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
    def is_elsewhere(self) -> bool:
        """Whether the sweep measures in jobs on a cluster or in processes of their own."""
        return self.config.launcher.cluster != HERE

    def check_code(self, traits: Mapping[str, Traits]) -> None:
        """Raise UsageError if a layer's code has changed and the run would keep rows of the old code.

        Runs of older versions do not store the code of their layers. They pass this check.
        """
        found = self._changed(code_digests(traits)) if self.continues else {}
        if not found:
            return
        past = read_resume_state(self.path)[0].reopening(self.config.retry)
        kept = {case.impl for case in (*past.trials, *past.facts)}
        ended = {(case.impl, status) for case, (status, _) in past.failures.items() if case.impl in found}
        rows = kept | {impl for impl, _ in ended}
        text = [f"{impl} in {', '.join(files)}" for impl, files in found.items() if impl in rows]
        # A layer that has no numbers yet may be measured again: nothing mixes with its new code.
        statuses = ",".join(sorted({status for _, status in ended}))
        again = f", or take them again with retry={statuses}" if not kept & found.keys() else ""
        changed = [f"changed since: {'; '.join(text)}"] if text else []
        _raise_if_different(self.path, "has rows of other code", changed, again)

    def check_options(self, session: Session, cases: Sequence[Case]) -> None:
        """Raise UsageError if the run has cases of other options. An option at its default is the same as none."""
        then = run_directory.read_config(self.path) if self.continues else None
        options = tuple(map(str, as_list((then or DEFAULTS).get("options", DEFAULTS["options"]))))
        if then and options != self.config.axes["options"]:
            before = session.cases(replace(self.config, axes={**self.config.axes, "options": options}))
            found = differences({"options": [*options]}, {"options": [*self.config.axes["options"]]})
            _raise_if_different(self.path, "is another sweep", found if {*before} != {*cases} else [])

    def _changed(self, code: Mapping[str, Mapping[str, str]]) -> dict[str, list[str]]:
        before = run_directory.read_machine_entry(self.path, CODE)
        return {
            impl: files
            for impl, now in code.items()
            if isinstance(before.get(impl), Mapping) and (files := layer_files.changed_files(before[impl], now))
        }

    def check_machine(self, machine: Mapping[str, Any]) -> None:
        """Raise UsageError if the sweep measures here and its times cannot be compared with those of the run."""
        for before in run_directory.machines(self.path).values() if self.continues and not self.is_elsewhere else ():
            _raise_if_different(self.path, "was measured on another machine", unlike(before, machine))
            for difference in changed_gpu_settings(before, machine):
                print(
                    f"harness: out={self.path}: {difference}: times may differ from those of the run. "
                    "To start anew, give another out=",
                    file=sys.stderr,
                )

    def begin(self, machine: Mapping[str, Any], traits: Mapping[str, Traits]) -> None:
        """Create the run, or update what a continued run stores. With `fresh`, set an existing run aside first.

        A corrected figure in a paper's file needs no new measurement. `check_code` has made sure that no results of
        changed code are kept. Raises UsageError if another sweep has just created the run.
        """
        code = code_digests(traits)
        if self.continues:
            self._update_paper()
            if self._changed(code):
                run_directory.set_machine_entry(self.path, CODE, code)
            return
        if run_directory.is_run(self.path) or run_directory.lacks_config(self.path):
            if not self.fresh:
                raise UsageError(
                    f"out={self.path}: another sweep has just created this run: repeat the command to continue it"
                )
            print(f"harness: what was in {self.path} is now in {run_directory.set_aside(self.path)}", file=sys.stderr)
        run_directory.create(self.path, self.config.record, {**machine, CODE: code})

    def _update_paper(self) -> None:
        before = run_directory.read_config(self.path)
        if before is not None and self.config.paper and before.get("paper") != self.config.paper:
            renewed = {**before, "paper": yaml.safe_load(self.config.yaml)["paper"]}
            text = yaml.safe_dump(renewed, sort_keys=False, allow_unicode=True)
            file_io.write_atomically(self.path / run_directory.CONFIG, text)

    def measure(self, session: Session, cases: Sequence[Case], console: Console) -> Mapping[Case, int] | None:
        """Measure the cases. Return how many trials each case has, or None if the sweep was interrupted.

        First, print which cases will certainly take longer than a trial may.
        """
        past, grow = self.past(cases, console), self.config.grow
        rates = measured_rates(session.executor, cases)
        expected = ExpectedTime(session.precision, rates)
        if expected.sweep_s(cases) > _LONG_SWEEP_S:
            expected = ExpectedTime(session.precision, rates, extrapolated_costs(session.executor, cases))
        for sentence in expected.timeouts(case for case in cases if case not in past.failures):
            console.out(sentence, highlight=False)
        try:
            return session.measure_into(self.path, cases, console, past=past, grow=grow, expected=expected).trials
        except KeyboardInterrupt:
            return None
        finally:
            session.executor.drop()  # only an interrupted trial can still be running

    def past(self, cases: Sequence[Case], console: Console) -> ResumeState:
        """The finished work of the run, without the failures to retry. Prints how far the run has come."""
        if not self.continues:
            return ResumeState()
        past, notices = read_resume_state(self.path)
        for notice in notices:
            print(f"harness: {notice}", file=sys.stderr)
        known = past.trials.keys() | past.failures.keys() | past.facts
        begun = known.intersection(cases)
        grown = f", and {len(known) - len(begun)} more, to which it has grown" if len(known) > len(begun) else ""
        console.out(f"{self.path}: continued; {len(begun)} of {len(cases)} cases have rows{grown}", highlight=False)
        left = Counter(past.failures[case][0] for case in begun & past.failures.keys())
        again = [status for status in left if status not in ("unsupported", *self.config.retry)]
        if again:
            ended = ", ".join(f"{left[status]} {status}" for status in again)
            text = f"of these ended without a time: {ended}; retry={','.join(again)} takes them again"
            console.out(text, highlight=False)
        return past.reopening(self.config.retry)

    def finished(self) -> dict[Case, str]:
        """The status of each case of the run that will not be measured again."""
        lines = summarise.summarise_run(self.path, self.config.precision)[0] if self.continues else []
        retry = self.config.retry
        return {line.case: line.status for line in lines if line.stop_reason != UNFINISHED and line.status not in retry}

    def unfinished(self, cases: Sequence[Case], lines: Sequence[CaseResult], trials: Mapping[Case, int]) -> str:
        """Say how many cases have no stop reason and fewer trials than the sweep has measured; empty if none.

        This happens if rows cannot be read back. `trials` holds the measured numbers; a case without one needs
        `min_rounds` trials. A case that has all its trials but no stop reason is finished: the sweep was right to stop,
        and a better probe has since shown that some trials were disturbed.
        """
        least = self.config.precision.min_rounds
        finished = {
            line.case for line in lines if line.stop_reason != UNFINISHED or line.trials >= trials.get(line.case, least)
        }
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
    then = {**DEFAULTS, **other_names.present(before), "options": now.get("options")}
    _raise_if_different(out, "is another sweep", differences(then, now))
    return True


def code_digests(traits: Mapping[str, Traits]) -> dict[str, dict[str, str]]:
    """The digests of each layer's files, by impl, in the form in which a run stores them."""
    here, ours = Path.cwd(), layer_files.files_of_builtin_layers()
    return {
        impl: layer_files.shown_digests(known.files, here) if layer_lookup.is_foreign(impl) else ours
        for impl, known in traits.items()
    }


def _raise_if_different(out: Path, what: str, found: list[str], otherwise: str = "") -> None:
    if found:
        more = f"; and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
        text = "; ".join(found[:_MOST_TOLD])
        raise UsageError(f"out={out} {what} ({text}{more}): name another, or give --fresh to set it aside{otherwise}")
