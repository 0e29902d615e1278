"""Rounds, looks, stopping, and everything flagged measured once more: with blocks that the test makes."""

import math
from collections import Counter

import pytest

from harness.extras.compare.paired_evidence import Rules
from harness.extras.compare.paired_verdicts import (
    BlockFailed,
    Blocks,
    Host,
    MeasuredBlocks,
    Standing,
    TakeBlock,
    Verdict,
    controls_of,
    measure_blocks,
    verdicts_of,
)

RULES = Rules()


class Script(Host):
    """Blocks of ratios by case and stage, each with a little random noise; it remembers the requests."""

    def __init__(self, first: list[float], again: list[float] | None = None, control: float = 0.0) -> None:
        self.logs = {"first": first, "again": again or first}
        self.control = control
        self.stage = "none"
        self.rounds: list[tuple[str, int]] = []
        self.asked: list[tuple[str, int, bool]] = []
        self.seen: list[tuple[str, list[int], int, int]] = []
        self.left = lambda stage, number: math.inf

    def begin_round(self, stage: str, number: int) -> None:
        self.stage = stage
        self.rounds.append((stage, number))

    def generations_left(self, stage: str, number: int) -> float:
        return self.left(stage, number)

    def end_round(self, stage: str, standing: Standing) -> None:
        assert standing.cases == standing.decided + standing.given_up + len(standing.evidence())
        self.seen.append((stage, sorted(standing.evidence()), standing.decided, standing.given_up))

    def take(self, case: int, control: bool) -> float:
        self.asked.append((self.stage, case, control))
        # Symmetric, and no two blocks of a case alike.
        number = self.asked.count((self.stage, case, control))
        wobble = (-1) ** (number // 2) * 1e-4 * number
        return wobble + (self.control if control else self.logs[self.stage][case])

    def measure(self, controls: tuple[int, ...] = (0,), rules: Rules = RULES, seed: int = 0) -> MeasuredBlocks:
        return measure_blocks(len(self.logs["first"]), controls, self.take, rules, seed, self)


def verdicts(measured: MeasuredBlocks, rules: Rules = RULES) -> list[Verdict]:
    return [one.verdict for one in verdicts_of(measured, rules)]


def test_it_stops_as_soon_as_it_is_sure() -> None:
    script = Script([0.0, 0.0, 0.0])
    measured = script.measure()
    assert [len(blocks.first) for blocks in measured.cases] == [16, 16, 16]
    assert script.rounds == [("first", number) for number in range(1, 17)]
    assert script.seen[-2:] == [("first", [0, 1, 2], 0, 0), ("first", [], 3, 0)]
    assert verdicts(measured) == [Verdict.EQUIVALENT] * 3


def test_who_is_not_sure_is_measured_no_more_often_than_allowed() -> None:
    rules = Rules(looks=(4, 5))  # too few to decide anything
    measured = Script([0.0, 0.3]).measure(rules=rules)
    assert [len(blocks.first) for blocks in measured.cases] == [rules.most_blocks] * 2
    assert verdicts(measured, rules) == [Verdict.UNDECIDED] * 2


@pytest.mark.parametrize(("rounds", "limit"), [(2, "minutes"), (10, "blocks")])
def test_the_advice_names_the_limit_that_ended_the_measurement(rounds: int, limit: str) -> None:
    rules = Rules(looks=(4, 5))  # at most 10 blocks, too few to decide anything
    script = Script([math.log(25.5)])
    script.left = lambda stage, number: math.inf if len(script.rounds) < rounds else 0.0
    (found,) = verdicts_of(script.measure(rules=rules), rules)
    assert found.blocks == rounds
    assert found.reason.endswith(f"; allow more {limit}=")


def test_right_at_the_threshold_a_case_is_given_up_before_it_has_all_its_blocks() -> None:
    measured = Script([0.0, RULES.log_threshold]).measure()
    assert verdicts(measured) == [Verdict.EQUIVALENT, Verdict.UNDECIDED]
    assert measured.cases[1].given_up
    assert RULES.fewest_blocks < len(measured.cases[1].first) < RULES.most_blocks


def test_what_is_flagged_is_measured_again_and_only_the_second_time_counts() -> None:
    script = Script([0.0, 0.3, -0.3], again=[0.0, 0.1, -0.2])
    measured = script.measure()
    assert [blocks.flagged for blocks in measured.cases] == [False, True, True]
    assert measured.cases[0].again == []
    found = verdicts_of(measured, RULES)
    assert [one.verdict for one in found] == [Verdict.EQUIVALENT, Verdict.WORSE, Verdict.BETTER]
    assert found[1].evidence.ratio == pytest.approx(1.105, abs=0.001)
    assert found[1].blocks == len(measured.cases[1].first) + len(measured.cases[1].again)
    stages = [stage for stage, _ in script.rounds]
    assert stages == sorted(stages, key=["first", "again"].index)
    assert [number for stage, number in script.rounds if stage == "again"] == list(range(1, 17))


def test_cases_that_all_changed_are_decided_together_at_the_first_look() -> None:
    # Alone among six, each would need a p-value of a sixth of alpha, which 16 blocks cannot have.
    measured = Script([0.1] * 6).measure()
    assert [(len(blocks.first), len(blocks.again)) for blocks in measured.cases] == [(16, 12)] * 6
    assert verdicts(measured) == [Verdict.WORSE] * 6
    assert all(RULES.threshold < one.smallest_detectable < 0.1 for one in verdicts_of(measured, RULES))
    alone = Script([0.1] + [0.0] * 5).measure()
    assert (len(alone.cases[0].first), alone.cases[0].flagged) == (24, True)


def test_what_is_not_so_again_is_undecided() -> None:
    found = verdicts_of(Script([0.0, 0.3, -0.3], again=[0.0, 0.0, 0.3]).measure(), RULES)
    assert [one.verdict for one in found] == [Verdict.EQUIVALENT, Verdict.UNDECIDED, Verdict.UNDECIDED]
    assert "slower at first, and not confirmed in new processes" in found[1].reason


@pytest.mark.parametrize("shift", [n / 2000 for n in range(-100, 101, 4)])
def test_the_interval_beside_what_was_measured_again_says_what_its_test_said(shift: float) -> None:
    first = [0.3 if shift >= 0 else -0.3] * 3
    noise = (-0.03, -0.02, -0.01, 0.0, 0.005, 0.01, 0.02, 0.04)
    measured = MeasuredBlocks(
        [
            Blocks([log] * 16, [part + shift + at for at in noise for _ in range(2)], True)
            for part, log in zip((0, 0.01, 0.05), first, strict=True)
        ],
        {0: Blocks(list(noise), list(noise))},
    )
    for one in verdicts_of(measured, RULES):
        assert (one.verdict == Verdict.WORSE) == (shift >= 0 and one.evidence.lo > 1 + RULES.threshold)
        assert (one.verdict == Verdict.BETTER) == (shift < 0 and one.evidence.hi < 1 / (1 + RULES.threshold))


@pytest.mark.parametrize("control", [0.2, -0.2])
def test_a_control_that_differs_disarms_everything(control: float) -> None:
    measured = Script([0.0, 0.3], control=control).measure()
    assert [one.held for one in controls_of(measured, RULES)] == [False]
    found = verdicts_of(measured, RULES)
    assert [one.verdict for one in found] == [Verdict.UNMEASURED, Verdict.UNMEASURED]
    assert "control failed: it measured as slower" in found[1].reason


def test_a_control_that_differed_and_then_died_disarms_all_the_same() -> None:
    measured = Script([0.0, 0.3], control=0.2).measure()
    measured.controls[0].failure = "control: killed"
    assert "control failed" in verdicts_of(measured, RULES)[0].reason


def test_a_control_that_differs_only_the_second_time_disarms_too_and_says_by_how_much() -> None:
    script = Script([0.0, 0.3])
    inner = script.take

    def take(case: int, control: bool) -> float:
        return inner(case, control) + (0.2 if control and script.stage == "again" else 0.0)

    measured = measure_blocks(2, (0,), take, RULES, 0, script)
    (control,) = controls_of(measured, RULES)
    assert not control.held
    assert control.evidence.ratio == pytest.approx(1.221, abs=0.001)
    assert verdicts(measured) == [Verdict.UNMEASURED, Verdict.UNMEASURED]


def breaking(script: Script, *broken: tuple[int, bool], after: int = 0) -> TakeBlock:
    def take(case: int, control: bool) -> float:
        log = script.take(case, control)
        if (case, control) in broken and script.asked.count((script.stage, case, control)) > after:
            raise BlockFailed("head: killed: by SIGKILL")
        return log

    return take


@pytest.mark.parametrize("after", [0, 3])
def test_a_case_that_cannot_be_measured_is_left_and_the_others_go_on(after: int) -> None:
    script = Script([0.0, 0.0, 0.3])
    measured = measure_blocks(3, (0,), breaking(script, (1, False), after=after), RULES, 0, script)
    found = verdicts_of(measured, RULES)
    assert [one.verdict for one in found] == [Verdict.EQUIVALENT, Verdict.UNMEASURED, Verdict.WORSE]
    assert found[1].reason == "head: killed: by SIGKILL"
    assert script.asked.count(("first", 1, False)) == after + 1


def test_where_no_control_could_be_measured_nothing_is_concluded() -> None:
    script = Script([0.0, 0.3])
    measured = measure_blocks(2, (0,), breaking(script, (0, True)), RULES, 0, script)
    assert [(one.held, one.failure) for one in controls_of(measured, RULES)] == [(False, "head: killed: by SIGKILL")]
    found = verdicts_of(measured, RULES)
    assert [one.verdict for one in found] == [Verdict.UNMEASURED, Verdict.UNMEASURED]
    assert "control could not be measured" in found[0].reason


def test_one_control_of_several_that_cannot_be_measured_leaves_the_word_to_the_others() -> None:
    script = Script([0.0, 0.3])
    measured = measure_blocks(2, (0, 1), breaking(script, (0, True)), RULES, 0, script)
    assert verdicts(measured) == [Verdict.EQUIVALENT, Verdict.WORSE]


def test_of_no_cases_nothing_is_asked() -> None:
    script = Script([])
    assert verdicts(script.measure(controls=())) == []
    assert script.asked == []


def test_the_order_is_random_and_the_seeds() -> None:
    orders = []
    for seed in (1, 1, 2):
        script = Script([0.0] * 6)
        script.measure(seed=seed)
        orders.append(script.asked)
    assert orders[0] == orders[1] != orders[2]
    first, second = orders[0][:7], orders[0][7:14]
    assert Counter(first) == Counter(second)  # everybody once a round
    assert first != second


def test_a_case_whose_blocks_vary_too_much_is_given_up_at_a_look_and_the_others_go_on() -> None:
    script = Script([0.0, 0.0, 0.3])
    quiet = script.take

    def take(case: int, control: bool) -> float:
        number = script.asked.count((script.stage, case, control))
        return quiet(case, control) + (0.2 * math.sin(number**2) if case == 1 else 0.0)

    measured = measure_blocks(3, (0,), take, RULES, 0, script)
    assert [blocks.given_up for blocks in measured.cases] == [False, True, False]
    assert len(measured.cases[1].first) in {look * RULES.generation for look in RULES.looks[:-1]}
    found = verdicts_of(measured, RULES)
    assert [one.verdict for one in found] == [Verdict.EQUIVALENT, Verdict.UNDECIDED, Verdict.WORSE]
    assert "a decision was unlikely in the time left" in found[1].reason
    assert found[1].smallest_detectable > 0.1
    assert ("first", [], 2, 1) in script.seen


def test_if_the_time_suffices_for_a_few_cases_only_these_are_measured() -> None:
    script = Script([0.0] * 10)
    blocks_left = lambda: 20 * 5 - len(script.asked)  # noqa: E731
    script.left = lambda stage, number: blocks_left() / (RULES.generation * number)
    measured = script.measure()
    found = verdicts_of(measured, RULES)
    decided = [one.verdict for one in found].count(Verdict.EQUIVALENT)
    assert [one.verdict for one in found] == [Verdict.EQUIVALENT] * decided + [Verdict.UNDECIDED] * (10 - decided)
    assert decided >= 2
    assert [len(blocks.first) for blocks in measured.cases[decided:]] == [4] * (10 - decided)


def test_a_stage_ends_with_the_round_in_which_its_time_is_up() -> None:
    script = Script([RULES.log_threshold])
    script.left = lambda stage, number: 0.0 if len(script.rounds) == 21 else math.inf
    assert len(script.measure().cases[0].first) == 21
