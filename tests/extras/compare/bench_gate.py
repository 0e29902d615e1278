"""The gate's false alarms, misses and wall time, beside the rules of others on the same samples.

    HARNESS_BENCH_RECORDS=DIR python -m pytest -s tests/extras/compare/bench_gate.py

runs real comparisons and keeps them in DIR, where a later call continues; draws thousands more from
their blocks and from made-up noise; and prints the tables. With HARNESS_BENCH_ALIKE, _PLANTED and _BELOW of 0 it only
prints. On two cores 40 runs of identical code take about an hour, and 6 with planted slow-downs half of one. With
HARNESS_BENCH_DEVICE=cuda all of it is on a GPU, where other directories are other records, and the first test fails if
a verdict is wrong: an alarm on identical code, or a planted share of 5 % or more that is not called slower.
HARNESS_BENCH_CASES of fewer than 12 leaves cases out. With HARNESS_BENCH_GENERATION=1, fork servers are renewed after
every round: half as many blocks decide.
"""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from extras.compare.gate import cases, recorded, resampled, rivals, simulated
from extras.compare.gate.recorded import ALARMS, RULES, SLOWER, Recorded, wrong_verdicts
from extras.compare.paired.simulated import Clock, Machine, Noise, parents
from rich.console import Console
from rich.table import Table

from harness.extras.compare.interleaved import controls_among
from harness.extras.compare.paired_evidence import Rules
from harness.extras.compare.paired_verdicts import (
    PairedResult,
    TakeBlock,
    Verdict,
    controls_of,
    measure_blocks,
    verdicts_of,
)

ALIKE = int(os.environ.get("HARNESS_BENCH_ALIKE", "40"))
PLANTED = int(os.environ.get("HARNESS_BENCH_PLANTED", "12"))
BELOW = int(os.environ.get("HARNESS_BENCH_BELOW", "3"))
DRAWS = int(os.environ.get("HARNESS_BENCH_DRAWS", "2000"))
# Of twelve pairs: slow-downs that must be found, with some of none; and those that are no larger than the floor.
FOUND = (0.05, 0.0, 0.10, 0.05, 0.20)
NOT_FOUND = (0.02, 0.03)
CONSOLE = Console(width=150)


@pytest.fixture(scope="module")
def records() -> Path:
    """Where comparisons are kept; those of earlier runs count."""
    directory = Path(os.environ.get("HARNESS_BENCH_RECORDS") or tempfile.mkdtemp(prefix="bench-gate-"))
    directory.mkdir(parents=True, exist_ok=True)
    return directory / "comparisons.jsonl"


def test_in_earnest(records: Path) -> None:
    """As many comparisons of each kind as asked for; those that are there already are not run again.

    On a GPU, where few comparisons are made, none may be wrong. On the CPU the table has the rates.
    """
    there = Counter(one.kind for one in recorded.read(records))
    plans = [("alike", (0.0,), ALIKE), ("planted", FOUND, PLANTED), ("below", NOT_FOUND, BELOW)]
    for kind, shares, number in plans:
        for turn in range(there[kind], number):
            pairs, effects = (cases.alike(), [0.0] * cases.CASES) if kind == "alike" else cases.planted(shares, turn)
            one = recorded.record(kind, pairs, effects, turn, records)
            CONSOLE.print(f"{kind} {turn + 1}/{number}: {one.wall_s:.0f} s, {dict(Counter(one.verdicts))}")
    _told("Real comparisons", [(kind, _of(records, kind)) for kind, _, _ in plans])
    wrong = wrong_verdicts(recorded.read(records))
    if cases.DEVICE == "cuda" and wrong:
        pytest.fail("\n".join((*wrong, f"to measure anew: rm {records}")), pytrace=False)


def _of(records: Path, kind: str) -> list[Recorded]:
    return [one for one in recorded.read(records) if one.kind == kind]


def _told(title: str, found: Iterable[tuple[str, list[Recorded]]]) -> None:
    table = Table(title=title, title_justify="left")
    headings = "", "runs", "with a flag", "control failed", "planted", "cases", "slower", "undecided", "equivalent"
    for heading in (*headings, "wall s, median"):
        table.add_column(heading, justify="right")
    for kind, runs in found:
        flags = sum(any(v in ALARMS and not e for v, e in zip(o.verdicts, o.effects, strict=True)) for o in runs)
        lost = sum(not one.held for one in runs)
        for effect in sorted({round(effect, 3) for one in runs for effect in one.effects}):
            said = [v for o in runs for v, e in zip(o.verdicts, o.effects, strict=True) if round(e, 3) == effect]
            numbers = [str(said.count(verdict)) for verdict in (SLOWER, "undecided", "equivalent")]
            wall = f"{median(one.wall_s for one in runs):.0f}"
            table.add_row(kind, str(len(runs)), str(flags), str(lost), f"{effect:+.1%}", str(len(said)), *numbers, wall)
    CONSOLE.print(table)


def test_drawn_again(records: Path) -> None:
    """Thousands of comparisons of identical code, from recorded blocks and from made-up noise; and with slow-downs."""
    alike = _of(records, "alike")
    makers = {kind: lambda effects, seed, kind=kind: simulated.taking(kind, effects, seed) for kind in simulated.KINDS}
    if alike:
        pools = [resampled.stretches(alike, case) for case in range(12)]
        makers = {"recorded": lambda effects, seed: resampled.taking(pools, effects, seed), **makers}
    table = Table(title=f"Drawn: {DRAWS} comparisons of 12 cases each", title_justify="left")
    for heading in ("noise", "planted in one case", "runs with a flag elsewhere", "control failed", "slower", "blocks"):
        table.add_column(heading, justify="right")
    for name, make in makers.items():
        for effect in (0.0, 0.02, 0.03, 0.05, 0.10, 0.20):
            draws = DRAWS if effect == 0 else DRAWS // 4
            # The planted case is another one in each draw.
            planted = [[effect if case == seed % 12 else 0.0 for case in range(12)] for seed in range(draws)]
            drawn = [_draw(make(effects, seed), seed, effects) for seed, effects in enumerate(planted)]
            others, lost, slower, blocks = (sum(column) / draws for column in zip(*drawn, strict=True))
            table.add_row(name, f"{effect:+.0%}", f"{others:.2%}", f"{lost:.2%}", f"{slower:.1%}", f"{blocks:.1f}")
    CONSOLE.print(table)


def _draw(take: TakeBlock, seed: int, effects: Sequence[float]) -> tuple[bool, bool, bool, float]:
    """Whether a case is flagged that nothing was planted in; whether the control failed; whether the planted one is

    slower; blocks a case.
    """
    measured = measure_blocks(12, controls_among(12), take, RULES, seed)
    found = verdicts_of(measured, RULES)
    others = any(one.verdict.time in ALARMS for one, effect in zip(found, effects, strict=True) if not effect)
    slower = any(one.verdict is Verdict.WORSE for one, effect in zip(found, effects, strict=True) if effect)
    lost = not all(control.held for control in controls_of(measured, RULES))
    return others, lost, slower, sum(one.blocks for one in found) / 12


def test_blocks_that_share_their_parents() -> None:
    """Simulated comparisons of twelve cases: blocks as values of the test, and the means of generations.

    `parents`: the standard deviation of the log ratio between pairs of fork servers; `blocks`: within a pair of them.
    """
    single = Rules(looks=(8, 12, 20, 36, 64, 120), generation=1)
    title = f"{DRAWS} comparisons of 12 cases, new servers every 4 or 2 rounds, at most 10 minutes"
    table = Table(title=title, title_justify="left")
    for heading in ("value of the test", "parents", "blocks", "all at the threshold: runs with an alarm"):
        table.add_column(heading, justify="right")
    for heading in ("one at +5 %: found", "its blocks, median, 95 %", "others flagged", "wall s, median"):
        table.add_column(heading, justify="right")
    for luck, block in ((0.005, 0.011), (0.01, 0.011), (0.015, 0.011), (0.01, 0.03)):
        for name, rules, together in (("a block, as before", single, 4), ("mean of a generation", RULES, 2)):
            noise = parents(luck, block, together)
            alarms = sum(
                any(one.verdict.time in ALARMS for one in _simulated([1.03] * 12, noise, seed, rules, together)[0])
                for seed in range(DRAWS)
            )
            runs = [_simulated([1.05] + [1.0] * 11, noise, seed, rules, together) for seed in range(DRAWS)]
            found = sum(run[0].verdict is Verdict.WORSE for run, _ in runs)
            others = sum(any(one.verdict.time in ALARMS for one in run[1:]) for run, _ in runs)
            blocks = [float(np.quantile([run[0].blocks for run, _ in runs], share)) for share in (0.5, 0.95)]
            counts = (f"{number} ({number / DRAWS:.1%})" for number in (alarms, found))
            wall = f"{median(used_s for _, used_s in runs):.0f}"
            of_blocks = f"{blocks[0]:.0f}, {blocks[1]:.0f}"
            table.add_row(name, f"{luck:.1%}", f"{block:.1%}", *counts, of_blocks, str(others), wall)
    CONSOLE.print(table)


def _simulated(
    ratios: list[float], noise: Noise, seed: int, rules: Rules, together: int
) -> tuple[list[PairedResult], float]:
    clock = Clock(Machine(ratios, noise, seed), 600, rules, together)
    measured = measure_blocks(len(ratios), controls_among(len(ratios)), clock.take, rules, seed, clock)
    return verdicts_of(measured, rules), clock.used_s


def test_beside_others(records: Path) -> None:
    """The same samples, judged by the rules of others: false alarms and misses."""
    runs = [one for kind in ("alike", "planted", "below") for one in _of(records, kind)]
    if not runs:
        pytest.skip("no comparison is recorded: give HARNESS_BENCH_RECORDS, or more of HARNESS_BENCH_ALIKE")
    effects = sorted({round(effect, 3) for one in runs for effect in one.effects})
    table = Table(title="Called slower, of the cases planted so", title_justify="left")
    for heading in ("rule", "runs of identical code with an alarm", *(f"{effect:+.1%}" for effect in effects)):
        table.add_column(heading, justify="right")
    ours = [[verdict == SLOWER for verdict in one.verdicts] for one in runs]
    _row(table, "this harness", runs, ours, effects)
    for name, rule in rivals.RULES.items():
        called = [[rule(*rivals.sides(blocks)) for blocks in one.blocks] for one in runs]
        _row(table, name, runs, called, effects)
    CONSOLE.print(table)


def _row(
    table: Table, name: str, runs: Sequence[Recorded], called: Sequence[Sequence[bool]], effects: Sequence[float]
) -> None:
    alike = [any(calls) for one, calls in zip(runs, called, strict=True) if one.kind == "alike"]
    cells = []
    for effect in effects:
        said = [
            call
            for one, calls in zip(runs, called, strict=True)
            for call, planted in zip(calls, one.effects, strict=True)
            if round(planted, 3) == effect
        ]
        cells.append(f"{sum(said)} of {len(said)}")
    table.add_row(name, f"{sum(alike)} of {len(alike)}", *cells)
