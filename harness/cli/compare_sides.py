"""The two sides of a comparison: what is asked, the trials of each side, and what is taken before any timing."""

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console

from harness import registry, store
from harness.case import AXES, Case, collapsed
from harness.config import SweepConfig, compose
from harness.errors import UsageError
from harness.former_names import present_option
from harness.gate.check_rules import Outcome
from harness.gate.compare import TIME
from harness.machine import describe_machine
from harness.measure.executor import Executor
from harness.measure.interleaved import Sides, prepare_pairs
from harness.measure.progress import Screen
from harness.measure.session import COMPILE_CACHE, check_devices, describe_impl, runner_of
from harness.registry import Traits
from harness.results.summarise import summarise_run
from harness.results.table import CaseResult
from harness.stats.paired_verdicts import UNDECIDED, UNMEASURED, Rules
from harness.worktree import Worktree, worktree

_NO_MODULE = re.compile(r"^ModuleNotFoundError: No module named '([^']*)'")
_OWN = ("ref", "threshold", "blocks", "minutes")
# Limits of the threshold: no machine can resolve a smaller change, and a larger one is not a useful threshold.
_LEAST_THRESHOLD, _LARGEST_THRESHOLD = 0.001, 1.0
_MOST_BLOCKS = 1000


@dataclass(frozen=True)
class ComparisonRequest:
    """A checked command line.

    `impls` are the layers of base and head, `None` if the working tree is compared with `ref`. Timing ends after
    `limit_s` seconds.
    """

    config: SweepConfig
    rules: Rules
    ref: str | None
    impls: tuple[str, str] | None
    limit_s: float = math.inf

    @property
    def title(self) -> str:
        """A short description of what is compared."""
        if self.impls is None:
            return f"compare the working tree with {self.ref}"
        return f"compare {self.impls[1]} with {self.impls[0]}"


@dataclass
class SideTraits:
    """Both sides, the traits of each layer on each side, and why other layers cannot be compared."""

    sides: Sides
    base_traits: dict[str, Traits]
    head_traits: dict[str, Traits]
    lacking: list[Outcome] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)


def read_comparison_request(overrides: Sequence[str], config_dir: Path | None) -> ComparisonRequest:
    """Parse and check the command line. Raises UsageError for invalid arguments."""
    overrides = [present_option(option) for option in overrides]
    own = _user_options(overrides)
    rest = [text for text in overrides if text.partition("=")[0] not in _OWN]
    given = {text.partition("=")[0] for text in rest}
    impls = None
    if "ref" not in own:
        impls = _two_sides([text for text in rest if text.startswith("impl=")])
        rest = [text for text in rest if not text.startswith("impl=")] + [f"impl={','.join(dict.fromkeys(impls))}"]
    if "allocator" not in given:
        rest.append("allocator=steady")
    return ComparisonRequest(compose(rest, config_dir), _rules(own), own.get("ref"), impls, 60 * _minutes(own))


def _user_options(overrides: Sequence[str]) -> dict[str, str]:
    own: dict[str, str] = {}
    for text in overrides:
        name, equals, value = text.partition("=")
        if name in _OWN:
            if name in own:
                raise UsageError(f"{name} is given twice")
            if not equals or not value:
                raise UsageError(f"'{text}' is not of the form {name}=…")
            own[name] = value
    return own


def _two_sides(given: Sequence[str]) -> tuple[str, str]:
    names = [name.strip() for text in given for name in text.removeprefix("impl=").split(",")]
    if len(given) != 1 or len(names) != 2:
        raise UsageError("compare takes two layers, impl=A,B, or a commit to compare with, ref=main")
    for name in names:
        registry.check_name(name)
    return names[0], names[1]


def _rules(own: dict[str, str]) -> Rules:
    known = Rules()
    threshold = _number("threshold", own.get("threshold", str(known.threshold)))
    most = _number("blocks", own.get("blocks", str(known.most_blocks)))
    if not _LEAST_THRESHOLD <= threshold < _LARGEST_THRESHOLD:
        raise UsageError(
            f"threshold={own['threshold']}: it takes a number from {_LEAST_THRESHOLD} on and below 1; 0.03 means 3 %"
        )
    least = known.looks[0]
    if not least <= most <= _MOST_BLOCKS or most != int(most):
        raise UsageError(f"blocks={own['blocks']}: it takes a whole number from {least} to {_MOST_BLOCKS}")
    looks = list(known.looks)
    while looks[-1] < most:
        looks.append(looks[-1] * 3 // 2)
    return Rules(threshold=threshold, looks=(*(look for look in looks if look < most), int(most)))


def _minutes(own: dict[str, str]) -> float:
    minutes = _number("minutes", own["minutes"]) if "minutes" in own else math.inf
    if not minutes > 0:
        raise UsageError(f"minutes={own['minutes']}: it takes a number above 0")
    return minutes


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise UsageError(f"{name}={text} is not a number") from error


@contextmanager
def prepare_sides_of(asked: ComparisonRequest, out: Path) -> Iterator[SideTraits]:
    """Both sides, ready to run trials.

    Raises UsageError if a layer cannot be loaded, or is the same on both sides.
    """
    if asked.ref is None:
        runner = _runner(asked.config, out / COMPILE_CACHE, None)
        with Sides(runner, runner.twin(), interchangeable=True) as sides:
            traits = {impl: describe_impl(impl, runner) for impl in asked.config.axes["impl"]}
            check_devices(asked.config, runner)
            yield SideTraits(sides, traits, traits)
        return
    with worktree(asked.ref) as tree:
        base = _runner(asked.config, out / COMPILE_CACHE / "base", tree.path(sys.path))
        head = _runner(asked.config, out / COMPILE_CACHE / "head", tree.own_path(sys.path))
        with Sides(base, head) as sides:
            check_devices(asked.config, sides.head)
            yield _of_two_trees(asked, sides, tree)


def _runner(config: SweepConfig, cache: Path, path: list[str] | None) -> Executor:
    runner = runner_of(config, cache, path)
    if config.memory_limit is None:
        runner.memory_limit //= 2  # a trial of each side runs at the same time
    return runner


def _of_two_trees(asked: ComparisonRequest, sides: Sides, tree: Worktree) -> SideTraits:
    found = SideTraits(sides, {}, {}, properties={"base": tree.commit})
    for impl in asked.config.axes["impl"]:
        if registry.is_in_a_file(impl):
            raise UsageError(f"impl='{impl}' is one file, whatever the commit: with ref= name it as module:Class")
        base, head = (_described(impl, runner) for runner in (sides.base, sides.head))
        lacking = _lacking(impl, base, head, str(asked.ref))
        if lacking is not None:
            found.lacking.append(lacking)
            continue
        file = base["file"] or "a module without a file"
        if not Path(file).resolve().is_relative_to(tree.at):
            raise UsageError(
                f"impl '{impl}' is from {file}, which is not of this repository: both sides would be the same"
            )
        for traits, seen in ((found.base_traits, base), (found.head_traits, head)):
            own = registry.is_foreign(impl)
            traits[impl] = Traits(seen["family"], seen["has_heads"]) if own else registry.traits(impl)
    return found


def _described(impl: str, runner: Executor) -> dict[str, Any]:
    return runner.run("describe", Case(impl, seq_len=1, d_model=1, num_heads=1))


def _lacking(impl: str, base: Mapping[str, Any], head: Mapping[str, Any], ref: str) -> Outcome | None:
    """Why a layer cannot be compared: undecided if it is new, unmeasured if a side failed to load it.

    None if both sides loaded the layer. Raises UsageError if neither did: its name is probably mistyped.
    """
    if base["status"] != "ok" and head["status"] != "ok":
        raise UsageError(f"impl '{impl}': {head['reason']}")
    if head["status"] != "ok":
        return Outcome(impl, TIME, UNMEASURED, "", "", f"head: {head['status']}: {head['reason']}")
    if base["status"] == "ok":
        return None
    if _is_absent(impl, base["reason"]):
        return Outcome(
            impl, TIME, UNDECIDED, "", "", f"the layer does not exist at {ref}: there is nothing to compare it with"
        )
    return Outcome(impl, TIME, UNMEASURED, "", "", f"at {ref}: {base['status']}: {base['reason']}")


def _is_absent(impl: str, reason: str) -> bool:
    """Whether the layer itself was not found, rather than something that its module imports."""
    module, _, name = registry.target(impl).partition(":")
    missing = _NO_MODULE.search(reason)
    if missing is not None:
        return f"{module}.".startswith(f"{missing[1]}.")
    return reason.startswith("AttributeError") and f"has no attribute '{name}'" in reason


def pair_cases(asked: ComparisonRequest, found: SideTraits) -> list[tuple[Case, Case]]:
    """The pairs of cases to compare, base and head."""
    impls = [asked.impls] if asked.impls else [(impl, impl) for impl in found.base_traits]
    pairs: dict[tuple[Case, Case], None] = {}
    for base, head in impls:
        for point in product(*(asked.config.axes[axis] if axis != "impl" else (base,) for axis in AXES)):
            of_base = collapsed(Case(*point), lambda impl: found.base_traits[impl].has_heads)
            of_head = collapsed(Case(head, *point[1:]), lambda impl: found.head_traits[impl].has_heads)
            pairs[of_base, of_head] = None
    return list(pairs)


@dataclass(frozen=True)
class Prepared:
    """Each side's summary lines by case, and the cases that can be timed. `torch` is the version that measured."""

    base: dict[Case, CaseResult]
    head: dict[Case, CaseResult]
    base_open: set[Case]
    head_open: set[Case]
    torch: str


def prepare_comparison(
    pairs: Sequence[tuple[Case, Case]], found: SideTraits, asked: ComparisonRequest, out: Path, console: Console
) -> Prepared:
    """Verify both sides and take their facts. Each side becomes a run that `report` can read."""
    torch = found.sides.head.run("machine")
    machine = describe_machine(torch)
    sides = []
    for name, at, traits, runner in (
        ("base", 0, found.base_traits, found.sides.base),
        ("head", 1, found.head_traits, found.sides.head),
    ):
        cases = list(dict.fromkeys(pair[at] for pair in pairs))
        sides.append(_prepare(cases, traits, runner, out / name, asked, machine, console))
    (base, base_open), (head, head_open) = sides
    return Prepared(base, head, base_open, head_open, str(torch.get("version")))


def _prepare(
    cases: Sequence[Case],
    traits: dict[str, Traits],
    runner: Executor,
    run: Path,
    asked: ComparisonRequest,
    machine: dict,
    console: Console,
) -> tuple[dict[Case, CaseResult], set[Case]]:
    store.create(run, asked.config.yaml, machine)
    writer = store.RowWriter(run)
    try:
        with Screen(cases, asked.config.precision, console) as screen:
            left = prepare_pairs(cases, traits, asked.config.precision, runner, writer, screen, asked.config.seed)
    finally:
        writer.close()
    lines, _ = summarise_run(run, asked.config.precision)
    return {line.case: line for line in lines}, left
