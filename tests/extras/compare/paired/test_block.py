"""One block, with fake trials: the order of the turns and the ratio."""

import math
import random
import sys
from collections import Counter
from dataclasses import replace

import psutil
import pytest

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.run.outcome import TrialOutcome
from harness.extras.compare import interleaved
from harness.extras.compare.interleaved import Block, Side, take_block
from harness.extras.compare.paired_verdicts import BlockFailed
from harness.extras.compare.turn_trial import Turn, TurnTrial, TurnTrialFailed

CASE = Case("attention.fused", seq_len=16, d_model=16, num_heads=2)


@pytest.fixture(autouse=True)
def durations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interleaved, "TURN_S", 0.004)
    monkeypatch.setattr(interleaved, "BLOCK_S", 0.12)


class Pretended:
    """A fake runner. The test sets the times of its trials and where they fail."""

    def __init__(self, times: list[float] | None = None, call_s: float = 1e-4, fails_at: str = "") -> None:
        self.times, self.call_s, self.fails_at = times or [1.0], call_s, fails_at
        self.asked: list[tuple[int, bool]] = []
        self.log: list[str] = []

    def begin(self, purpose: str, case: Case, extra: object, start: object) -> "Pretended":
        self._do("begin")
        return self

    def wait_until_warm(self) -> float:
        self._do("warm")
        return self.call_s

    def turn(self, place: int, anew: bool) -> Turn:
        self._do("turn")
        time = self.times[len(self.asked) % len(self.times)]
        self.asked.append((place, anew))
        return Turn(time, 2 * time)

    def end(self) -> TrialOutcome:
        self.log.append("end")
        return TrialOutcome("error", "compiled again") if self.fails_at == "end" else TrialOutcome("ok")

    def abandon(self) -> None:
        self.log.append("abandon")

    def _do(self, what: str) -> None:
        self.log.append(what)
        if self.fails_at == what:
            raise TurnTrialFailed(TrialOutcome("killed", f"at {what}"))


def block(a: Pretended, b: Pretended, seed: int = 0) -> Block:
    base, head = (Side(name, CASE, runner) for name, runner in (("base", a), ("head", b)))  # type: ignore[arg-type]
    return take_block(base, head, random.Random(seed))


def test_turns_come_as_abba_or_baab_drawn_at_random() -> None:
    orders = Counter[str]()
    for seed in range(20):
        order = block(Pretended(), Pretended(), seed=seed).order
        assert len(order) == 4 * 8
        orders.update(order[at : at + 4] for at in range(0, len(order), 4))
    assert set(orders) == {"ABBA", "BAAB"}
    assert min(orders.values()) > 0.3 * orders.total()


def test_both_sides_have_as_many_turns_at_the_same_places() -> None:
    a, b = Pretended(), Pretended()
    block(a, b)
    places = [place for place in range(8) for _ in range(2)]
    assert [place for place, _ in a.asked] == [place for place, _ in b.asked] == places


def test_each_side_is_built_anew_once_an_order_before_its_first_turn() -> None:
    a, b = Pretended(), Pretended()
    block(a, b)
    assert [anew for _, anew in a.asked] == [anew for _, anew in b.asked] == [True, False] * 8


def test_the_ratio_is_that_of_the_fastest_turns() -> None:
    a, b = Pretended([3.0, 2.0, 9.0]), Pretended([50.0, 4.0, 5.0])
    found = block(a, b)
    assert found.log_ratio == pytest.approx(math.log(4.0 / 2.0))
    assert len(found.turns) == len(found.order)


@pytest.mark.parametrize(("call_s", "orders"), [(1e-5, 8), (0.004, 8), (0.0045, 7), (0.008, 4), (5.0, 3)])
def test_of_calls_longer_than_a_turn_there_are_more_turns_and_of_very_long_ones_never_too_few(
    call_s: float, orders: int
) -> None:
    found = block(Pretended(call_s=call_s), Pretended(call_s=call_s))
    assert len(found.order) == 4 * orders


def test_both_warm_up_before_anything_is_timed_and_both_end() -> None:
    a, b = Pretended(), Pretended()
    block(a, b)
    for one in (a, b):
        assert one.log[:2] == ["begin", "warm"]
        assert one.log[-2:] == ["end", "abandon"]
        assert set(one.log[2:-2]) == {"turn"}


@pytest.mark.parametrize("at", ["begin", "warm", "turn"])
def test_a_side_that_fails_is_named_and_nobody_is_left_waiting(at: str) -> None:
    for seed in range(4):  # either side may begin first
        a, b = Pretended(), Pretended(fails_at=at)
        with pytest.raises(BlockFailed, match=f"head: killed: at {at}"):
            block(a, b, seed=seed)
        for one in (a, b):
            begun = "begin" in one.log and one.fails_at != "begin"
            assert (one.log[-1:] == ["abandon"]) is begun


def test_a_side_for_which_memory_does_not_suffice_twice_says_that_both_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    full = Pretended()

    def no_room() -> float:
        raise TurnTrialFailed(TrialOutcome("oom", "CUDA out of memory"))

    monkeypatch.setattr(full, "wait_until_warm", no_room)
    with pytest.raises(BlockFailed, match="head: oom: CUDA out of memory; both sides are in memory at once"):
        block(Pretended(), full)


def test_a_side_that_ends_badly_is_no_block() -> None:
    with pytest.raises(BlockFailed, match="base: error: compiled again"):
        block(Pretended(fails_at="end"), Pretended())


def test_one_side_is_warm_before_the_other_begins() -> None:
    told: list[str] = []
    a, b = Pretended(), Pretended()
    a.log = b.log = told
    block(a, b)
    assert told[:5] == ["begin", "warm", "begin", "warm", "turn"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked at on Linux only")
def test_while_one_side_has_its_turn_no_thread_of_the_other_runs(
    runner: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # They would spin: blocks of a layer of many parallel regions then take 5 s (`bench_many_regions.py`).
    trials: list[TurnTrial] = []
    states: list[str] = []
    turn = TurnTrial.turn

    def watched(trial: TurnTrial, place: int, anew: bool) -> Turn:
        trials.extend([trial] if trial not in trials else [])
        states.extend(psutil.Process(other._pid).status() for other in trials if other is not trial)
        return turn(trial, place, anew)

    monkeypatch.setattr(TurnTrial, "turn", watched)
    case = replace(CASE, threads=2)
    with runner.twin() as other:
        take_block(Side("base", case, runner), Side("head", case, other), random.Random(0))
    assert len(states) >= 7  # one for each turn but the first
    assert set(states) == {psutil.STATUS_STOPPED}
