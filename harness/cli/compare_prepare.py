"""Prepare both sides of a comparison: verify them and take their facts. Each side is a run that `report` can read."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from harness import store
from harness.case import Case
from harness.catalog import Traits
from harness.cli.compare_sides import Asked, Found
from harness.machine import describe_machine
from harness.summary import Line, summarise_run
from harness.sweep.paired.comparison import prepare
from harness.sweep.progress import Screen
from harness.sweep.runner import Runner


@dataclass(frozen=True)
class Prepared:
    """Each side's summary lines by case, and the cases that can be timed. `torch` is the version that measured."""

    base: dict[Case, Line]
    head: dict[Case, Line]
    base_open: set[Case]
    head_open: set[Case]
    torch: str


def prepare_sides(
    pairs: Sequence[tuple[Case, Case]], found: Found, asked: Asked, out: Path, console: Console
) -> Prepared:
    """Verify both sides and take their facts."""
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
    runner: Runner,
    run: Path,
    asked: Asked,
    machine: dict,
    console: Console,
) -> tuple[dict[Case, Line], set[Case]]:
    store.create(run, asked.config.yaml, machine)
    writer = store.RowWriter(run)
    try:
        with Screen(cases, asked.config.precision, console) as screen:
            left = prepare(cases, traits, asked.config.precision, runner, writer, screen, asked.config.seed)
    finally:
        writer.close()
    lines, _ = summarise_run(run, asked.config.precision)
    return {line.case: line for line in lines}, left
