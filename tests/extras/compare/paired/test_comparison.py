"""The timing of pairs: the processes of each block, the log, and the choice of controls."""

import io
import itertools
import math
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from harness.core.model.sweep_axes import Case
from harness.extras.compare import interleaved
from harness.extras.compare.interleaved import (
    Block,
    ComparisonScreen,
    Pair,
    PairTimer,
    Side,
    Sides,
    controls_among,
)
from harness.extras.compare.paired_evidence import Evidence, Rules
from harness.extras.compare.paired_verdicts import BlockFailed, MeasuredBlocks, Standing
from harness.extras.compare.turn_trial import Turn

ONE_LOOK = Rules(looks=(8,))
Rows = Sequence[dict[str, Any]]
A, B = (Case(impl, seq_len=16, d_model=16, num_heads=2) for impl in ("rnn.torch", "rnn.elman"))


ORDER = "ABBABAAB"
# A turn after the other side's takes 1.5 times as long. The first turn of each side in a pattern does not count.
TIMES = [9.0, 9.0, 1.0, 1.5, 9.0, 9.0, 1.0, 1.5]


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
    """Runs `PairTimer` with fake blocks. The test sets their `log_ratio` and their failures."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, interchangeable: bool = False) -> None:
        self.told: list[str] = []
        base, head = (Pretended(name, self.told) for name in ("base", "head"))
        self.sides = Sides(base, head, interchangeable)  # type: ignore[arg-type]
        self.blocks: list[tuple[Side, Side]] = []
        self.rows: list[dict[str, Any]] = []
        self.fails: set[str] = set()
        self.forgives = -1  # number of failures to come; unlimited if negative
        self.log_ratio = 0.0
        self.threads_after: dict[str, float] = {}
        self.now_s = 0.0
        self.block_s, self.servers_s, self.slow_from = 0.3, 2.9, 10**9
        renew = self.sides.renew

        def renew_slowly() -> None:
            self.now_s += self.servers_s
            renew()

        monkeypatch.setattr(self.sides, "renew", renew_slowly)
        self.interrupts_at = -1  # the number of the block that an interrupt replaces
        self.noise = 1e-4
        self.screen = io.StringIO()
        monkeypatch.setattr(interleaved, "take_block", self._take)
        monkeypatch.setattr(interleaved.time, "monotonic", lambda: self.now_s)

    def _take(self, a: Side, b: Side, draw: random.Random) -> Block:
        if len(self.blocks) == self.interrupts_at:
            raise KeyboardInterrupt
        self.blocks.append((a, b))
        self.now_s += self.block_s if len(self.blocks) < self.slow_from else 2.0
        if b.name in self.fails and self.forgives != 0:
            self.forgives -= 1
            raise BlockFailed(f"{b.name}: killed: by SIGKILL")
        log_ratio = (self.log_ratio if b.name == "head" else 0.0) + self.noise * (draw.random() - 0.5)
        return Block(log_ratio, ORDER, tuple(Turn(time, 2 * time) for time in TIMES), self.threads_after)

    def time(
        self, pairs: list[Pair], rules: Rules = ONE_LOOK, minutes: float = math.inf, past: Rows = ()
    ) -> MeasuredBlocks:
        screen = ComparisonScreen([str(pair.head) for pair in pairs], rules, 60 * minutes, Console(file=self.screen))
        log, limit_s = self.rows.append, 60 * minutes
        timer = PairTimer(pairs, self.sides, rules, 0, log, screen, limit_s, past)  # type: ignore[arg-type]
        return timer.time_pairs()


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


@pytest.mark.parametrize("name", ["head", "control"])
def test_where_both_sides_find_the_same_layers_two_executors_serve_all(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    timed = Timed(monkeypatch, interchangeable=True)
    timed.time([Pair(A, B)])
    served = {(a.executor.name, b.executor.name) for a, b in timed.blocks if b.name == name}  # type: ignore[attr-defined]
    assert served == {("base", "head"), ("head", "base")}
    assert timed.told.count("machine base") == timed.told.count("machine head") == 8
    assert "machine control" not in timed.told


@pytest.mark.parametrize("interchangeable", [True, False])
def test_interchangeable_executors_swap_within_a_generation_and_those_of_another_commits_control_do_not(
    monkeypatch: pytest.MonkeyPatch, interchangeable: bool
) -> None:
    timed = Timed(monkeypatch, interchangeable)
    timed.time([Pair(A, B)])
    served = [a.executor.name for a, b in timed.blocks if b.name == "control"]  # type: ignore[attr-defined]
    together = list(zip(served[::2], served[1::2], strict=True))
    assert {one != other for one, other in together} == {interchangeable}
    assert set(served) == {"base", "head" if interchangeable else "control"}


def test_processes_are_new_every_two_rounds_and_before_anything_is_measured_again(timed: Timed) -> None:
    timed.log_ratio = 0.5
    timed.time([Pair(A, B)])
    renewals = [index for index, word in enumerate(timed.told) if word == "machine control"]
    assert len(renewals) == 16  # before every second of 16 rounds, twice
    first = timed.told[: renewals[0] + 1]
    assert [word.split()[0] for word in first] == ["drop"] * 3 + ["start"] * 3 + ["machine"] * 3


def test_every_block_is_written_down_with_its_turns(timed: Timed) -> None:
    timed.log_ratio = 0.5
    timed.time([Pair(A, B)])
    assert {(row["stage"], row["round"], row["control"]) for row in timed.rows} == {
        (stage, number, control) for stage in ("first", "again") for number in range(1, 17) for control in (False, True)
    }
    row = next(row for row in timed.rows if not row["control"])
    assert (row["base"], row["head"], row["order"]) == (A.key, B.key, ORDER)
    assert row["min_s"] == TIMES
    assert row["mean_s"] == [2 * time for time in TIMES]
    assert row["log_ratio"] == pytest.approx(0.5, abs=1e-3)
    assert {(row["stage"], (row["round"] + 1) // 2, row["generation"]) for row in timed.rows} == {
        (stage, number + 1, number + 1 + 8 * (stage == "again")) for stage in ("first", "again") for number in range(8)
    }
    assert [row["used_s"] for row in timed.rows] == sorted(row["used_s"] for row in timed.rows)
    assert {row["took_s"] for row in timed.rows} == {timed.block_s}


def test_after_a_failure_the_others_go_on_in_new_processes(timed: Timed) -> None:
    timed.fails = {"control"}
    measured = timed.time([Pair(A, B)])
    assert measured.controls[0].failure == "control: killed: by SIGKILL"
    assert len(measured.cases[0].first) == 16
    assert timed.told.count("machine control") == 10  # before every second of 16 rounds, and after each failure
    assert [row["failure"] for row in timed.rows if "failure" in row] == ["control: killed: by SIGKILL"] * 2


@pytest.mark.parametrize(
    ("head", "threads_after", "failure"),
    [
        (B, {"base": 0.0, "head": 0.9}, "head: threads of the layer run on after a call has returned"),
        (B, {"base": 0.9, "head": 0.9}, "base and head: threads of the layer run on"),
        (replace(A, seq_len=32), {"base": 0.9, "head": 0.9}, None),
        (B, {"base": 0.0, "head": 0.1}, None),
    ],
)
def test_threads_that_work_on_after_calls_of_one_side_end_the_pair(
    timed: Timed, head: Case, threads_after: dict[str, float], failure: str | None
) -> None:
    timed.threads_after = threads_after
    measured = timed.time([Pair(A, head)])
    found = measured.cases[0].failure
    assert found is None if failure is None else str(found).startswith(failure), found
    assert len(measured.cases[0].first) == (2 if failure else 16)
    assert measured.controls[0].failure is None
    past = [dict(row) for row in timed.rows]
    assert timed.time([Pair(A, head)], past=past).cases == measured.cases


def test_one_failure_of_a_case_is_forgiven(timed: Timed) -> None:
    timed.fails, timed.forgives = {"head"}, 1
    measured = timed.time([Pair(A, B)])
    assert measured.cases[0].failure is None
    assert len(measured.cases[0].first) == 16


@pytest.mark.parametrize(
    ("cases", "controls"), [(0, []), (1, [0]), (4, [0]), (5, [0, 3]), (8, [0, 4]), (12, [0, 4, 8])]
)
def test_one_case_in_four_is_a_control_and_at_least_one(cases: int, controls: list[int]) -> None:
    assert controls_among(cases) == controls


def pairs(number: int) -> list[Pair]:
    return [Pair(replace(A, seq_len=16 * (i + 1)), replace(B, seq_len=16 * (i + 1))) for i in range(number)]


def test_a_stage_ends_when_its_time_is_up_though_the_blocks_become_slower_than_forecast(timed: Timed) -> None:
    timed.slow_from = 29
    timed.time([Pair(A, B)], Rules(looks=(8,)), minutes=34 / 36)
    # The first stage has 34 s. A round takes 4 s by then, and new servers take 3 s.
    assert 34 <= timed.rows[-1]["used_s"] < 34 + 7
    assert timed.rows[-1]["round"] == 15


def test_if_the_time_suffices_for_some_pairs_only_these_are_measured(timed: Timed) -> None:
    measured = timed.time(pairs(12), Rules(), minutes=2)  # 72 s for blocks of 0.3 s of 12 pairs and 3 controls
    blocks = [len(one.first) for one in measured.cases]
    assert blocks == sorted(blocks, reverse=True)
    assert blocks.count(16) >= 4
    assert blocks[-1] == 4
    assert [one.given_up for one in measured.cases] == [number < 16 for number in blocks]
    assert timed.rows[-1]["used_s"] <= 72


@pytest.mark.parametrize("blocks", [0, 1, 7, 40, 41, 49, 90])
@pytest.mark.parametrize("minutes", [2, 30])
def test_an_interrupted_comparison_continues_as_if_it_had_not_been(timed: Timed, blocks: int, minutes: float) -> None:
    timed.log_ratio, timed.noise = 0.07, 0.1
    whole = timed.time(pairs(3), Rules(), minutes)
    rows = [dict(row) for row in timed.rows]
    assert {row["stage"] for row in rows} == {"first", "again"}
    for name in ("rows", "blocks", "told"):
        getattr(timed, name).clear()
    timed.now_s, timed.interrupts_at = 0.0, blocks
    with pytest.raises(KeyboardInterrupt):
        timed.time(pairs(3), Rules(), minutes)
    past, timed.interrupts_at, timed.now_s = [dict(row) for row in timed.rows], -1, 5e4  # hours later
    continued = timed.time(pairs(3), Rules(), minutes, past)
    # No block is measured twice, those measured already decide as they did, and the wait does not count.
    assert len(timed.rows) == len({(row["head"], row["control"], row["stage"], row["round"]) for row in timed.rows})
    assert [described(row) for row in timed.rows[:blocks]] == [described(row) for row in rows[:blocks]]
    assert timed.rows[-1]["used_s"] < 60 * minutes + 5
    generations = [row["generation"] for row in timed.rows]
    assert generations == sorted(generations)
    if minutes == 30:  # with less time, that of the additional servers may change what is given up
        assert continued == whole
        assert [described(row) for row in timed.rows] == [described(row) for row in rows]


def described(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in row if name not in ("at", "generation", "used_s")}


def test_a_failure_counts_when_the_comparison_continues(timed: Timed) -> None:
    timed.fails, timed.forgives = {"head"}, 1
    timed.interrupts_at = 9
    with pytest.raises(KeyboardInterrupt):
        timed.time([Pair(A, B)])
    past, timed.interrupts_at, timed.forgives = [dict(row) for row in timed.rows], -1, -1
    measured = timed.time([Pair(A, B)], past=past)
    assert measured.cases[0].failure == "head: killed: by SIGKILL"
    assert [row["failure"] for row in timed.rows if "failure" in row] == ["head: killed: by SIGKILL"] * 2


def test_a_plain_screen_says_now_and_then_how_far_each_open_pair_is(timed: Timed) -> None:
    timed.noise, timed.log_ratio = 0.1, 0.02
    timed.time(pairs(2), Rules(looks=(8, 12, 18)), minutes=10)
    lines = timed.screen.getvalue().splitlines()
    assert re.fullmatch(r" +\d+ s  round \d+  0 of 2 pairs decided  at most 10 min left", lines[1])
    times = [float(line.split()[0]) for line in lines if " s  " in line[:9]]
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= 10
    listed = [line.strip() for line in lines if " s  " not in line[:9]]
    assert listed[0].startswith(f"{pairs(2)[0].head}: ×")
    assert re.search(r"×[\d.]+ \([\d.]+ to [\d.]+\) after \d+ blocks$", listed[0])


def test_a_terminal_shows_a_table_of_the_open_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    for clock in ("time.monotonic", "harness.core.run.progress.monotonic"):
        monkeypatch.setattr(clock, lambda: now[0])
    console = Console(file=io.StringIO(), width=100, height=7, force_terminal=True, legacy_windows=False)
    evidence = {at: Evidence(24, 1.0, 1.0, 1.0, 1.021, 0.989, 1.054) for at in (0, 2, 3, 5, 6)}
    with ComparisonScreen([f"layer n={n}" for n in range(8)], Rules(), 600, console) as screen:
        screen.round("again", 24)
        screen.end_round(Standing(8, 2, 1, lambda: evidence), True)
        now[0] = 1.0
        screen.block(63.0)
        found = console.file.getvalue()  # type: ignore[attr-defined]
    for words in (
        "63 s  again, round 24  2 of 8 pairs decided  1 given up  at most 9 min left",
        "layer n=0  ×1.021 (0.989 to 1.054)  24 blocks",
        "… and 2 more; equivalent between ×0.971 and ×1.030, faster or slower beyond",
    ):
        assert words in found
    assert "layer n=1" not in found
