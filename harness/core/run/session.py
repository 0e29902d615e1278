"""The one way to measure: a `Session` starts the processes that trials run in, and measures cases.

sweep, check, calibrate, jobs on a cluster, pytest  →  Session  →  Scheduler   →  Executor
compare, and the pairs of check                     →  Session  →  time_pairs  →  Executor
verify                                              →  Session                 →  Executor
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from harness.core.config import Precision, SweepConfig
from harness.core.config.machine import ENVIRONMENTS, Machine, describe_machine, versions_text, with_gpus_of
from harness.core.layers import layer_files, layer_lookup
from harness.core.layers.layer_lookup import Layer
from harness.core.model import gpus, own_axes
from harness.core.model.background_process import check_interpreter, interpreter_of
from harness.core.model.case_grid import grid
from harness.core.model.errors import UsageError, did_you_mean, notify
from harness.core.model.layer_options import NO_OPTIONS, OPTION, options_of, without, without_defaults
from harness.core.model.sweep_axes import OWN_ENVIRONMENT, Case, device_kind
from harness.core.results import row_files

from .executor import Executor
from .expected_time import ExpectedTime, extrapolated_costs, measured_rates
from .fork_client import OF_DRIVER, Runtime
from .progress import Screen
from .scheduler import NO_PAST, ResumeState, RowSink, Scheduler, Watcher

# The directory of compiled code, below the output directory, shared by the run's trials. It exists only if a layer
# compiles.
COMPILE_CACHE = "compile-cache"
# What to do with cases: everything, all but the timing, or the timing alone.
Phase = Literal["all", "prepare", "time"]


class DescribedLayers:
    """Layers as trials describe them, once in each environment."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._layers: dict[tuple[str, str], Layer] = {}

    def within(self, impl: str, env: str = OWN_ENVIRONMENT) -> Layer:
        """The layer as a trial describes it in this environment. It may be refused there."""
        if (impl, env) not in self._layers:
            outcome = self._executor.ask("describe", Case(impl, 1, 1, 1, env=env))
            layer = Layer.described(outcome.values) if outcome.ok else Layer(refused=outcome.reason)
            self._layers[impl, env] = layer
        return self._layers[impl, env]

    def layer(self, impl: str) -> Layer:
        """The layer in all environments, which is known without a trial for one of the registry.

        Raises UsageError if the module, the class or its reference cannot be loaded, if its claims are not valid, or if
        its traits differ between environments.
        """
        environments = self._executor.environments
        if not layer_lookup.is_foreign(impl):
            for environment in environments if layer_lookup.package_of(impl) else ():
                self.within(impl, environment)  # its package may take seconds to import: once for all trials
            return layer_lookup.registered(impl)
        first, files = self.within(impl, environments[0]), dict[str, str]()
        for environment in environments:
            layer = self.within(impl, environment)
            if layer.refused:
                where = "" if tuple(environments) == (OWN_ENVIRONMENT,) else f"env={environment}: "
                raise UsageError(f"{where}impl '{impl}': {layer.refused}")
            if (layer.family, layer.has_heads) != (first.family, first.has_heads):
                where = f"in env={environment} than in env={environments[0]}"
                raise UsageError(
                    f"impl '{impl}' has another family or other heads {where}: sweep each environment by itself"
                )
            files |= layer.files
        return replace(first, files=files)

    def lacked(self, config: SweepConfig, is_strict: bool = True) -> dict[str, list[str]]:
        """The layers that lack an option that the cases name, if it is an own axis of all others.

        Those layers are compared with each value of it. If a layer lacks any other option, raises UsageError or, unless
        `is_strict`, leaves it to the trials to refuse the case.
        """
        names = dict.fromkeys(chain(*map(options_of, sorted(config.axes["options"]))))
        places = product(config.axes["impl"], self._executor.environments) if names else ()
        described = [(impl, self.within(impl, env)) for impl, env in places]
        layers = [(impl, layer, layer.options) for impl, layer in described if layer.options is not None]
        lacked = {}
        for name in names:
            lacking = {impl: options for impl, _, options in layers if name not in options}
            with_it = [layer for impl, layer, _ in layers if impl not in lacking]
            are_sizes = [name in own_axes.axes_of_text(layer.own_axes) for layer in with_it]
            if lacking and with_it and all(are_sizes):
                lacked[name] = list(lacking)
            elif lacking and is_strict:
                instead = f": measure them apart, or declare '{name}' in the axes of the others"
                if not with_it:
                    instead = did_you_mean(name, dict.fromkeys(chain(*lacking.values())))
                verb = "has" if len(lacking) == 1 else "have"
                raise UsageError(f"{OPTION}{name}: {', '.join(lacking)} {verb} no option '{name}'{instead}")
        return lacked

    def without_default_options(self, cases: Iterable[Case], lacked: Mapping[str, Collection[str]]) -> list[Case]:
        """The different cases, each without the options that have their default.

        A layer without an own axis, as `lacked` returns them, is a single case, as a layer without heads is. Raises
        UsageError for a value that no size along an own axis can have.
        """
        distinct = dict[Case, None]()
        for case in cases:
            lacking = [name for name, impls in lacked.items() if case.impl in impls]
            case = replace(case, options=without(case.options, lacking))
            if case.options != NO_OPTIONS:
                layer = self.within(case.impl, case.env)
                own_axes.check_sizes(case.impl, layer.own_axes, case.options)
                case = replace(case, options=without_defaults(case.options, layer.options or {}))
            distinct[case] = None
        return list(distinct)


@dataclass(frozen=True)
class Plan:
    """What a sweep would measure.

    - `cases`: all of the grid. `left`: those to measure.
    - `finished`: the status of those that an earlier sweep finished.
    - `refused`: the status and reason of each case that cannot be measured.
    - `expected`: how long the cases that are left take
    """

    cases: Sequence[Case]
    left: Sequence[Case]
    finished: Mapping[Case, str]
    refused: Mapping[Case, tuple[str, str]]
    expected: ExpectedTime


class Session:
    """Starts the processes that trials run in, examines layers, and measures cases.

    `layers` holds the layers described so far. A context manager: its processes end with it. `devices` are those of the
    cases.
    """

    def __init__(self, executor: Executor, precision: Precision, seed: int, devices: Sequence[str] = ()) -> None:
        self.executor, self.precision, self.seed, self.devices = executor, precision, seed, devices
        self.layers: dict[str, Layer] = {}
        self.described = DescribedLayers(executor)
        self._printed: set[str] = set()

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

    def describe(self, impl: str) -> Layer:
        """The layer, as `DescribedLayers` finds it."""
        if impl not in self.layers:
            self.layers[impl] = self.described.layer(impl)
        return self.layers[impl]

    def has_heads(self, impl: str) -> bool:
        """Whether the layer has heads. Raises UsageError as `describe` does."""
        return self.describe(impl).has_heads

    def cases(self, config: SweepConfig) -> list[Case]:
        """The cases of the configured grid. All its layers are described first."""
        for impl in config.axes["impl"]:
            self.describe(impl)
        return self.distinct_cases(config, grid(config.axes, self.has_heads, config.points))

    def distinct_cases(self, config: SweepConfig, cases: Iterable[Case], is_strict: bool = True) -> list[Case]:
        """The cases without options that their layers lack or have as defaults, as `DescribedLayers` finds them.

        If `is_strict`, the first call names layers without an own axis on stderr.
        """
        lacked = self.described.lacked(config, is_strict)
        for name, impls in lacked.items() if is_strict else ():
            note = f"{', '.join(impls)}: no option '{name}', so measured without it"
            if note not in self._printed:
                notify(note)
            self._printed.add(note)
        return self.described.without_default_options(cases, lacked)

    def indivisible_size(self, case: Case) -> str | None:
        """Say which size of the case is not divisible as its layer needs it; None if all are."""
        return layer_lookup.indivisible_size(case, self.has_heads(case.impl))

    def refused(self, cases: Sequence[Case], finished: Collection[Case]) -> dict[Case, tuple[str, str]]:
        """The status and reason of each refused case, judged by its numbers first and then by its layer."""
        refused = {case: ("unsupported", reason) for case in cases if (reason := self.indivisible_size(case))}
        return refused | self.executor.refused(case for case in cases if case not in refused and case not in finished)

    def plan(self, cases: Sequence[Case], finished: Mapping[Case, str]) -> Plan:
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
        gpu_devices = [device for device in config.axes["device"] if device != "cpu"]
        for environment in self.executor.environments if gpu_devices else ():
            seen = self._seen_gpus(environment)
            where = "here" if environment == OWN_ENVIRONMENT else f"in env={environment}"
            for device in gpu_devices:
                kind, _, number = device.partition(":")
                count = seen.get(kind, {}).get("count")
                if not count:
                    raise UsageError(_no_gpu(kind, where, seen, config.paper.get("scale") == "full"))
                if int(number or 0) >= count:
                    last = count - 1
                    visible = f"'device={kind}:0' to 'device={kind}:{last}'" if last else f"'device={kind}'"
                    raise UsageError(f"device={device}: torch sees no such device {where}: type {visible}")

    def _seen_gpus(self, environment: str) -> dict[str, Any]:
        return self.executor.within(environment).ask("machine").values.get("devices", {})

    def visible_gpus(self, config: SweepConfig) -> list[str] | None:
        """The GPUs that the cases' devices may be, as `model/gpus.py` names them. None without such cases."""
        kind = next((kind for kind in map(device_kind, config.axes["device"]) if kind in gpus.NUMBERED), None)
        if kind is None:
            return None
        return gpus.entries(kind, self._seen_gpus(self.executor.environments[0]).get(kind, {}).get("count", 0))

    def machine(self, usable: int | None = None, impls: Iterable[str] = ()) -> Machine:
        """The description of the machine, with `usable` CPUs, the cases' GPUs and the packages of the layers `impls`.

        If the cases name environments, the first describes the machine, with the versions in each. The layers are then
        those described so far. Raises UsageError if torch cannot report it.
        """
        environments = self.executor.environments
        if tuple(environments) == (OWN_ENVIRONMENT,):
            return self._machine_within(OWN_ENVIRONMENT, usable, impls)
        machines = [self._machine_within(environment, usable, self.layers) for environment in environments]
        versions = map(versions_text, machines)
        return {**machines[0], ENVIRONMENTS: dict(zip(environments, versions, strict=True))}

    def _machine_within(self, environment: str, usable: int | None, impls: Iterable[str]) -> Machine:
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
        past: ResumeState = NO_PAST,
        grow: str | None = None,
        order: int = 0,
    ) -> Scheduler:
        """Measure the cases into `rows`. Return the scheduler, which knows the number of trials of each case.

        `order` makes the random order within rounds another one. Raises CodeChanged if a layer's file is changed.
        """
        layers = {case.impl: self.describe(case.impl) for case in cases}
        ours = {str(file): layer_files.digest([file]) for file in layer_files.builtin_files(self.executor.runtime.path)}
        for impl, layer in layers.items():
            self.executor.code.setdefault(impl, layer.files or ours)
        seed = self.seed + order
        scheduler = Scheduler(cases, layers, self.precision, self.executor, rows, watcher, seed, past=past, grow=grow)
        {"all": scheduler.run, "prepare": scheduler.prepare, "time": scheduler.time_in_rounds}[phase]()
        return scheduler

    def measure_into(
        self,
        out: Path,
        cases: Sequence[Case],
        console: Console,
        phase: Phase = "all",
        past: ResumeState = NO_PAST,
        grow: str | None = None,
        order: int = 0,
        first: Sequence[Mapping[str, Any]] = (),
    ) -> Scheduler:
        """Measure the cases into the run at `out`, and show the progress. `first` are rows to write before."""
        writer = row_files.RowWriter(out)
        try:
            for row in first:
                writer.write(row)
            expected = ExpectedTime(self.precision)
            with Screen(cases, expected, console, past, phase != "prepare") as screen:
                return self.measure(cases, writer, screen, phase, past, grow, order)
        finally:
            writer.close()


def _no_gpu(kind: str, where: str, seen: Mapping[str, Any], is_published: bool) -> str:
    """What is wrong with a kind of GPU that torch does not see, and what to type."""
    instead = "; scale=cpu is for a machine without one" if is_published else ""
    lacking = seen.get(kind, {}).get("lacking")
    why = f"; {lacking}" if lacking else ""
    if kind != "cuda":
        usable = next((other for other, of_kind in seen.items() if of_kind.get("count")), "cpu")
        why += f"; type 'device={usable}'"
    elif not lacking:
        why = "; check the driver by 'nvidia-smi', and the variable CUDA_VISIBLE_DEVICES, or type 'device=cpu'"
    return f"device={kind}: torch sees no {kind.upper()} device {where}{instead}{why}"
