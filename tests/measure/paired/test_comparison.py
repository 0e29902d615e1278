"""The timing of pairs: the processes of each block, the log, and the choice of controls."""

import random
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from harness.measure import interleaved
from harness.measure.fork_client import Turn
from harness.measure.interleaved import (
    Block,
    Pair,
    PairScreen,
    Side,
    Sides,
    Timing,
    controls_among,
    time_pairs,
)
from harness.stats.paired_verdicts import BlockFailed, MeasuredBlocks, Rules
from harness.sweep_axes import Case

A, B = (Case(impl, seq_len=16, d_model=16, num_heads=2) for impl in ("rnn.torch", "rnn.elman"))


class Pretended:
    """A fake runner that only records its calls."""

    def __init__(self, name: str, told: list[str]) -> None:
        self.name, self.told = name, told

    def twin(self) -> "Pretended":
        return Pretended("control", self.told)

    def start(self) -> None:
        self.told.append(f"start {self.name}")

    def drop(self) -> None:
        self.told.append(f"drop {self.name}")

    def run(self, purpose: str) -> None:
        self.told.append(f"{purpose} {self.name}")


class Timed:
    """Runs `time_pairs` with fake blocks. The test sets their `log_ratio` and their failures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[str] = []
        self.sides = Sides(*(Pretended(name, self.told) for name in ("base", "head")))  # type: ignore[arg-type]
        self.blocks: list[tuple[Side, Side]] = []
        self.rows: list[dict[str, Any]] = []
        self.fails: set[str] = set()
        self.forgives = -1  # number of failures to come; unlimited if negative
        self.log_ratio = 0.0
        monkeypatch.setattr(interleaved, "take_block", self._take)

    def _take(self, a: Side, b: Side, timing: Timing, draw: random.Random) -> Block:
        self.blocks.append((a, b))
        if b.name in self.fails and self.forgives != 0:
            self.forgives -= 1
            raise BlockFailed(f"{b.name}: killed: by SIGKILL")
        log_ratio = (self.log_ratio if b.name == "head" else 0.0) + 1e-4 * draw.random()
        return Block(log_ratio, "ABBA", (Turn(1.0, 2.0),) * 4)

    def time(self, pairs: list[Pair], blocks: int = 8) -> MeasuredBlocks:
        screen = PairScreen(len(pairs), Console(file=StringIO()))
        return time_pairs(pairs, self.sides, Rules(looks=(blocks,)), Timing(), 0, self.rows.append, screen)  # type: ignore[arg-type]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> Timed:
    return Timed(monkeypatch)


def test_a_block_is_of_base_and_head_and_a_controls_of_the_base_twice(timed: Timed) -> None:
    timed.time([Pair(A, B)])
    sides = {tuple((side.name, side.case, side.executor.name) for side in both) for both in timed.blocks}  # type: ignore[attr-defined]
    assert sides == {
        (("base", A, "base"), ("head", B, "head")),
        # The two executors of a control are equivalent: each serves either side.
        (("base", A, "base"), ("control", A, "control")),
        (("base", A, "control"), ("control", A, "base")),
    }


def test_where_both_sides_find_the_same_layers_either_executor_serves_either_side(timed: Timed) -> None:
    timed.sides.interchangeable = True
    timed.time([Pair(A, B)])
    heads = {b.executor.name for _, b in timed.blocks if b.name == "head"}  # type: ignore[attr-defined]
    assert heads == {"base", "head"}


def test_processes_are_new_every_four_rounds_and_before_anything_is_measured_again(timed: Timed) -> None:
    timed.log_ratio = 0.5
    timed.time([Pair(A, B)], blocks=10)
    renewals = [index for index, word in enumerate(timed.told) if word == "machine control"]
    assert len(renewals) == 6  # before rounds 1, 5 and 9, twice
    first = timed.told[: renewals[0] + 1]
    assert [word.split()[0] for word in first] == ["drop"] * 3 + ["start"] * 3 + ["machine"] * 3


def test_every_block_is_written_down_with_its_turns(timed: Timed) -> None:
    timed.log_ratio = 0.5
    timed.time([Pair(A, B)])
    assert {(row["stage"], row["round"], row["control"]) for row in timed.rows} == {
        (stage, number, control) for stage in ("first", "again") for number in range(1, 9) for control in (False, True)
    }
    row = next(row for row in timed.rows if not row["control"])
    assert (row["base"], row["head"], row["order"]) == (A.key, B.key, "ABBA")
    assert row["min_s"] == [1.0] * 4
    assert row["mean_s"] == [2.0] * 4
    assert row["log_ratio"] == pytest.approx(0.5, abs=1e-3)


def test_after_a_failure_the_others_go_on_in_new_processes(timed: Timed) -> None:
    timed.fails = {"control"}
    measured = timed.time([Pair(A, B)], blocks=8)
    assert measured.controls[0].failure == "control: killed: by SIGKILL"
    assert len(measured.cases[0].first) == 8
    assert timed.told.count("machine control") == 4  # before rounds 1 and 5, and after each failure
    assert [row["failure"] for row in timed.rows if "failure" in row] == ["control: killed: by SIGKILL"] * 2


def test_one_failure_of_a_case_is_forgiven(timed: Timed) -> None:
    timed.fails, timed.forgives = {"head"}, 1
    measured = timed.time([Pair(A, B)], blocks=8)
    assert measured.cases[0].failure is None
    assert len(measured.cases[0].first) == 8


@pytest.mark.parametrize(
    ("cases", "controls"), [(0, []), (1, [0]), (4, [0]), (5, [0, 3]), (8, [0, 4]), (12, [0, 4, 8])]
)
def test_one_case_in_four_is_a_control_and_at_least_one(cases: int, controls: list[int]) -> None:
    assert controls_among(cases) == controls


def test_the_screen_says_now_and_then_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(interleaved.time, "monotonic", lambda: now[0])
    console = Console(file=StringIO(), width=200)
    screen = PairScreen(3, console)
    for stage, number, at in (("first", 1, 5.0), ("first", 2, 11.0), ("again", 1, 12.0), ("again", 2, 25.0)):
        screen.round(stage, number)
        now[0] = at
        screen.block(Pair(A, B))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [" ".join(line.split()[:3]) for line in lines] == ["11 s round", "25 s again,"]
    assert "rnn.elman" in lines[0]
