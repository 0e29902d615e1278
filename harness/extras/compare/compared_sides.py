"""The two sides of a comparison: the processes of each side, what is taken before any timing, and the blocks."""

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from harness.core.config import SweepConfig
from harness.core.config.compose import differences
from harness.core.config.machine import Machine, unlike, versions_text
from harness.core.layers import layer_files, layer_lookup
from harness.core.model import file_io, formatting
from harness.core.model.background_process import check_interpreter
from harness.core.model.case_grid import collapsed
from harness.core.model.errors import UsageError
from harness.core.model.file_validation import OpenModel, checked
from harness.core.model.sweep_axes import AXES, Case
from harness.core.results import run_directory, summarise
from harness.core.results.row import StoredRow
from harness.core.run.fork_client import OF_DRIVER, Runtime
from harness.core.run.outcome import TrialOutcome
from harness.core.run.output_directory import code_digests
from harness.core.run.scheduler import NO_PAST, read_resume_state
from harness.core.run.session import COMPILE_CACHE, Session
from harness.study.check.check_rules import Outcome, Verdict

from .explanation import Explanation, trace_pair
from .interleaved import ComparisonScreen, Pair, PairTimer, Sides, is_block_row
from .paired_evidence import Rules
from .paired_verdicts import MeasuredBlocks
from .report import FLOAT64, TIME, Comparison, compare_sides, pair_label, versions_sentences
from .side_settings import SideSettings
from .worktree import LEFT_OUT, LayerFiles, Worktree, choice_sentences, touched_layers, worktree


@dataclass(frozen=True)
class ComparisonRequest:
    """What to compare.

    `impls` are the layers of base and head, if two layers are compared. With `ref`, the working tree is compared with
    that commit, or the commit `head` is. `changed` is the value of `--changed`, which leaves out layers that the diff
    does not touch. `sides` are two settings of one layer, and `control` is the interpreter of a copy of the base's
    environment. Timing ends after this number of `minutes`.
    """

    config: SweepConfig
    rules: Rules
    ref: str | None
    impls: tuple[str, str] | None
    minutes: float
    sides: tuple[SideSettings, SideSettings] | None = None
    control: str | None = None
    head: str | None = None
    changed: str | None = None

    @property
    def title(self) -> str:
        """A short description of what is compared."""
        layer = f"{self.config.axes['impl'][0]}: " if self.sides is not None else ""
        return f"compare {layer}{self.name_of(1)} with {self.name_of(0)}"

    def name_of(self, side: int) -> str:
        """What the base (0) or the head (1) is: a commit, a layer or a setting."""
        if self.sides is not None:
            return self.sides[side].name
        names = (self.ref, self.head or "the working tree") if self.ref else self.impls or ("", "")
        return names[side]

    def config_of(self, side: int) -> SweepConfig:
        """The configuration of the base (0) or of the head (1)."""
        return self.sides[side].config if self.sides is not None else self.config

    def settings(self, properties: Mapping[str, str]) -> dict[str, Any]:
        """What an interrupted comparison must have in common with one that continues it.

        `properties` hold the commit of the base, or the versions of both sides.
        """
        base, minutes = properties.get("base"), f"{self.minutes:g}"
        of_comparison = {"impls": self.impls, "base": base, "minutes": minutes, **asdict(self.rules)}
        if self.sides is not None:
            of_comparison |= {**properties, "control": self.control}
        if self.changed is not None:
            of_comparison |= {LEFT_OUT: properties.get(LEFT_OUT)}
        return {**yaml.safe_load(self.config.yaml), **json.loads(json.dumps(of_comparison))}


@dataclass
class _OpenSides:
    """Both sides, their sessions, which know their layers, and why other layers cannot be compared."""

    sides: Sides
    base: Session
    head: Session
    lacking: list[Outcome] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)


def measure_comparison(
    request: ComparisonRequest, out: Path, console: Console
) -> tuple[Comparison, dict[str, str], list[Outcome]]:
    """Verify both sides, take their facts and time them. Each side becomes a run below `out` that `report` can read.

    If `out` holds an interrupted comparison, it continues. Returns the comparison, properties of the run, and what
    could not be compared. Raises UsageError if `out` holds another comparison.
    """
    with ExitStack() as stack:
        opened = stack.enter_context(_open_sides(request, out))
        pairs = _pairs(request, opened)
        if request.changed is not None and not pairs:
            return Comparison((), ()), opened.properties, opened.lacking
        stack.enter_context(run_directory.locked(out))
        machines = _describe_machines(request, opened)
        if request.sides is not None:
            _compare_references(pairs[0].base, opened)
        past = _begin(request, opened, out, machines[1])
        most = f"at most {formatting.duration(60 * request.minutes)}" if math.isfinite(request.minutes) else "no limit"
        pairs_text = "one pair" if len(pairs) == 1 else f"{len(pairs)} pairs"
        console.out(f"{request.title}: {pairs_text}, {most} of timing (minutes={request.minutes:g})")
        choice = choice_sentences(opened.properties, request.ref, request.changed)
        console.out("\n".join([*choice, *versions_sentences(opened.properties)]))
        if past is not None:
            used = formatting.duration(past[-1]["used_s"] if past else 0.0)
            continued = f"{len(past)} blocks of the interrupted comparison, {used} of timing, count as if just measured"
            console.out(f"{out}: {continued}")
        lines = []
        ready = []  # the cases of each side that can be timed
        for at, (name, session) in enumerate((("base", opened.base), ("head", opened.head))):
            before = NO_PAST
            if run_directory.is_run(out / name):
                before, _ = read_resume_state(out / name)
            else:
                run_directory.create(out / name, request.config_of(at).yaml, machines[at])
            cases = list(dict.fromkeys(pair[at] for pair in pairs))
            console.out(f"{name}, {request.name_of(at)}: verification, then exact counts")
            ready.append(session.measure_into(out / name, cases, console, "prepare", before).open)
            lines.append({line.case: line for line in summarise.summarise_run(out / name, session.precision)[0]})
        timed = [number for number, (a, b) in enumerate(pairs) if a in ready[0] and b in ready[1]]
        measured = MeasuredBlocks([], {})
        if timed:
            chosen, limit_s = [pairs[number] for number in timed], 60 * request.minutes
            labels = [pair_label(pair.head, pair.base) for pair in chosen]
            screen = stack.enter_context(ComparisonScreen(labels, request.rules, limit_s, console))
            seed, log = request.config.seed, _blocks(out).append
            timer = PairTimer(chosen, opened.sides, request.rules, seed, log, screen, limit_s, past or ())
            measured = timer.time_pairs()
        comparison = compare_sides(pairs, timed, measured, lines[0], lines[1], request.rules)
        comparison = replace(comparison, explanations=tuple(explain_slower(comparison, opened.sides, out)))
    return comparison, {**opened.properties, "torch": str(machines[1]["torch"].get("version"))}, opened.lacking


def explain_slower(comparison: Comparison, sides: Sides, out: Path) -> Iterator[Explanation]:
    """Where each confirmed slower pair differs. All timing has ended by now, and each call has its own process."""
    for number, pair in enumerate(comparison.compared, start=1):
        if pair.verdict is Verdict.WORSE:
            base = "base", f"{number}_base", sides.base, pair.base
            head = "head", f"{number}_head", sides.head, pair.head
            yield trace_pair(f"Where to look, head compared with base: {pair.label}", (base, head), out)


# The files of a comparison: its settings, its blocks, and its result, which it has only once it has ended.
REQUEST, BLOCKS, RESULT = "request.json", "blocks.jsonl", "comparison.csv"


class _Request(OpenModel):
    settings: dict[str, Any]
    code: dict[str, dict[str, str]]
    machine: dict[str, Any]


def check_directory(out: Path) -> None:
    """Raise UsageError unless `out` can hold a new comparison, or holds an interrupted one."""
    if (out / RESULT).exists():
        raise UsageError(f"out={out} is a comparison that has ended: name a new directory")
    if not (out / REQUEST).is_file():
        run_directory.check_new(out)


def _begin(request: ComparisonRequest, opened: _OpenSides, out: Path, machine: Machine) -> list[StoredRow] | None:
    """Store the settings of a new comparison in `out`, or read the blocks of one that continues; None if it is new."""
    settings, code = request.settings(opened.properties), code_digests(opened.head.layers)
    if request.sides is not None:  # two environments may hold two states of the layer
        code |= {f"{impl} of the base": files for impl, files in code_digests(opened.base.layers).items()}
    if not (out / REQUEST).is_file():
        file_io.write_json(out / REQUEST, {"settings": settings, "code": code, "machine": machine})
        return None
    try:
        before = checked(_Request, file_io.read_json(out / REQUEST))
    except (OSError, ValueError) as error:
        raise UsageError(f"{out / REQUEST} cannot be read ({error}): name a new directory") from error
    unlike_before = [*differences(before.settings, settings), *unlike(before.machine, machine)]
    for impl, now in code.items():
        files = layer_files.changed_files(before.code.get(impl, {}), now)
        unlike_before += [f"{impl} was changed in {', '.join(files)}"] if files else []
    if unlike_before:
        raise UsageError(f"out={out} is another comparison ({'; '.join(unlike_before)}): name a new directory")
    return _blocks(out).read()


@dataclass(frozen=True)
class Log:
    """A file of JSON lines, which are only ever appended. `is_valid` judges a row, given its position."""

    path: Path
    is_valid: Callable[[int, StoredRow], bool]

    def append(self, row: StoredRow) -> None:
        """Write a row."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def read(self) -> list[StoredRow]:
        """The rows of all complete lines; the rest of the last line is removed, if the writer was killed there.

        Raises UsageError for a row that is damaged or not valid.
        """
        if not self.path.exists():
            return []
        text = self.path.read_bytes()
        complete = text[: text.rfind(b"\n") + 1]
        if complete != text:
            self.path.write_bytes(complete)
        rows: list[StoredRow] = []
        for number, line in enumerate(complete.splitlines()):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict) or not self.is_valid(number, row):
                what = "the row is damaged, or of another version of the harness"
                raise UsageError(f"{self.path}, line {number + 1}: {what}: name a new directory")
            rows.append(row)
        return rows


def _blocks(out: Path) -> Log:
    return Log(out / BLOCKS, lambda _, row: is_block_row(row))


def _pairs(request: ComparisonRequest, opened: _OpenSides) -> list[Pair]:
    """The pairs of cases to compare, base and head.

    Raises UsageError if both sides of a pair are the same, and for an option that a layer lacks. Of two commits, the
    base may not know an option yet, and one of several layers may lack it: trials find out.
    """
    impls = [request.impls] if request.impls else [(impl, impl) for impl in opened.base.layers]

    def measured(at: int, case: Case) -> Case:
        session, config = (opened.base, opened.head)[at], request.config_of(at)
        config = replace(config, axes={**config.axes, "impl": tuple(session.layers)})
        own_axes = request.sides[at].axes if request.sides else {}
        case = collapsed(replace(case, **own_axes), session.has_heads)
        is_strict = request.ref is None or (at == 1 and len(session.layers) == 1)
        return session.distinct_cases(config, [case], is_strict)[0]

    pairs = []
    points = list(product(*(request.config.axes[axis] for axis in AXES if axis != "impl")))
    for (base, head), point in product(impls, points):
        pair = Pair(measured(0, Case(base, *point)), measured(1, Case(head, *point)))
        if request.sides and opened.sides.interchangeable and pair.base == pair.head:
            raise UsageError(f"both sides are the same case, {pair.base}: let another setting differ")
        pairs.append(pair)
    return list(dict.fromkeys(pairs))


@contextmanager
def _open_sides(request: ComparisonRequest, out: Path) -> Iterator[_OpenSides]:
    """Both sides, ready to run trials.

    Raises UsageError if a layer cannot be loaded, or is the same on both sides.
    """
    if request.ref is None:
        with _open_runtimes(request, out) as opened:
            yield opened
        return
    with worktree(request.ref) as tree:
        base = session_of_side(request.config, out / COMPILE_CACHE / "base", Runtime(path=tree.path(sys.path)))
        with worktree(request.head) if request.head else nullcontext() as other:
            path = other.path(sys.path) if other else tree.own_path(sys.path)
            head = session_of_side(request.config, out / COMPILE_CACHE / "head", Runtime(path=path))
            with Sides(base.executor, head.executor) as sides:
                head.check_devices(request.config)
                yield _of_two_trees(request, _OpenSides(sides, base, head, properties={"base": tree.commit}), tree)


@contextmanager
def _open_runtimes(request: ComparisonRequest, out: Path) -> Iterator[_OpenSides]:
    """Both sides of the working tree, each in its own runtime. Sides with the same runtime are interchangeable."""
    runtimes = [side.runtime for side in request.sides] if request.sides else [OF_DRIVER, OF_DRIVER]
    for python in filter(None, dict.fromkeys([*(runtime.python for runtime in runtimes), request.control])):
        check_interpreter(python)
    alike, control = runtimes[0] == runtimes[1] and request.control is None, None
    if alike:
        base = session_of_side(request.config, out / COMPILE_CACHE, runtimes[0])
        head = copy(base)  # it shares what is known of the layers
        head.executor = base.executor.twin()
    else:
        base, head = (
            session_of_side(request.config, out / COMPILE_CACHE / name, runtime)
            for name, runtime in zip(("base", "head"), runtimes, strict=True)
        )
        control = base.executor.twin(request.control)
    names = {name: side.name for name, side in zip(("base", "head"), request.sides or (), strict=False)}
    with Sides(base.executor, head.executor, alike, control) as sides:
        for at, session in enumerate((base, head)):
            try:
                for impl in request.config.axes["impl"]:
                    session.describe(impl)
                session.check_devices(request.config_of(at))
            except UsageError as error:
                if request.sides is None:
                    raise
                raise UsageError(f"side '{request.sides[at].name}': {error}") from error
        yield _OpenSides(sides, base, head, properties=names)


def _describe_machines(request: ComparisonRequest, opened: _OpenSides) -> tuple[Machine, Machine]:
    """The machine as base and head see it. Their versions become properties.

    Raises UsageError if a control of its own has other versions than the base.
    """
    impls = list(opened.head.layers)
    head = opened.head.machine(impls=impls)
    base = head if opened.sides.interchangeable else opened.base.machine(impls=impls)
    of_base = versions_text(base)
    opened.properties |= {"base versions": of_base, "head versions": versions_text(head)}
    if request.control is not None:
        control = Session(opened.sides.control, opened.base.precision, opened.base.seed, opened.base.devices)
        versions = versions_text(control.machine(impls=impls))
        if versions != of_base:
            instead = "give a copy of the base"
            raise UsageError(f"control={request.control} has {versions}, and the base has {of_base}: {instead}")
    return base, head


# Outputs in float64 that differ by less, as a share of their norm, are the same up to rounding.
_ROUNDING = 1e-4


def _compare_references(case: Case, opened: _OpenSides) -> None:
    """Find whether the references of both sides return the same output in float64, as a property.

    Nothing is said of interchangeable sides, and of a layer that a side cannot build.
    """
    if opened.sides.interchangeable:
        return
    outcomes = [executor.ask("reference", case.small()) for executor in (opened.sides.base, opened.sides.head)]
    if not all(outcome.ok for outcome in outcomes):
        return
    was, now = (outcome.values["projections"] for outcome in outcomes)
    alike = all(abs(a - b) <= _ROUNDING * was[0] for a, b in zip(was, now, strict=True))
    opened.properties[FLOAT64] = "equal" if alike else "different"


def session_of_side(config: SweepConfig, cache: Path, runtime: Runtime) -> Session:
    session = Session.of(config, cache, runtime)
    if config.memory_limit is None:
        session.executor.memory_limit //= 2  # a trial of each side runs at the same time
    return session


def _of_two_trees(request: ComparisonRequest, opened: _OpenSides, tree: Worktree) -> _OpenSides:
    files = {}
    for impl in request.config.axes["impl"]:
        if layer_lookup.is_in_a_file(impl):
            raise UsageError(f"impl='{impl}' is one file, whatever the commit: with ref= name it as module:Class")
        base, head = (side.ask("describe", Case(impl, 1, 1, 1)) for side in (opened.sides.base, opened.sides.head))
        lacking = _lacking(impl, base, head, tree, str(request.ref))
        if lacking is not None:
            opened.lacking.append(lacking)
            continue
        opened.base.layers[impl], opened.head.layers[impl] = layer_of(impl, base), layer_of(impl, head)
        files[impl] = LayerFiles.of([(base.values, tree.at), (head.values, tree.top)])
    if request.changed is not None:
        chosen, properties = touched_layers(files, tree.changed(), request.changed)
        opened.properties |= properties
        for session in (opened.base, opened.head):
            session.layers = {impl: session.layers[impl] for impl in chosen}
    return opened


def layer_of(impl: str, described: TrialOutcome) -> layer_lookup.Layer:
    """The layer, as the trial found out that described it. One of the registry is known."""
    if layer_lookup.is_foreign(impl):
        return layer_lookup.Layer.described(described.values)
    return layer_lookup.registered(impl)


def commit_lacks(tree: Worktree, impl: str, described: TrialOutcome) -> bool:
    """Whether the commit of a worktree lacks the layer, as the trial found out that described it there."""
    if not described.ok:
        return _is_absent(impl, str(described.reason))
    return not tree.holds(impl, described.values.get("file"))


def _lacking(impl: str, base: TrialOutcome, head: TrialOutcome, tree: Worktree, ref: str) -> Outcome | None:
    """Why a layer cannot be compared: undecided if it is new, unmeasured if a side failed to load it.

    None if both sides loaded the layer. Raises UsageError if neither did: its name is probably mistyped.
    """
    if not (base.ok or head.ok):
        raise UsageError(f"impl '{impl}': {head.reason}")
    if not head.ok:
        return Outcome(impl, TIME, Verdict.UNMEASURED, "", "", f"head: {head.status}: {head.reason}")
    if commit_lacks(tree, impl, base):
        why = f"the layer does not exist at {ref}: there is nothing to compare it with"
        return Outcome(impl, TIME, Verdict.UNDECIDED, "", "", why)
    if base.ok:
        return None
    why = f"the layer cannot be imported at {ref}, so there is nothing to compare it with ({base.reason})"
    return Outcome(impl, TIME, Verdict.UNMEASURED, "", "", why)


_NO_MODULE = re.compile(r"^ModuleNotFoundError: No module named '([^']*)'")


def _is_absent(impl: str, reason: str) -> bool:
    """Whether a trial failed because the layer itself was not found, rather than something that its module imports."""
    if not layer_lookup.is_foreign(impl) and reason == "ValueError: Empty module name":
        return True  # the other registry lacks the name
    module, _, name = layer_lookup.target(impl).partition(":")
    missing = _NO_MODULE.search(reason)
    if missing is not None:
        return f"{module}.".startswith(f"{missing[1]}.")
    return reason.startswith("AttributeError") and f"has no attribute '{name}'" in reason
