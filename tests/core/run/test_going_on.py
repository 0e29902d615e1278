"""A sweep that continues an earlier one measures the missing trials, and none twice."""

from collections import Counter
from typing import Any

from core.run.test_scheduler import CASES, CONFIRMED, PRECISION, Log, Pretender, steady

from harness.core.layers.layer_lookup import Layer
from harness.core.model.sweep_axes import Case
from harness.core.run.scheduler import ResumeState, Scheduler
from harness.core.stats.estimate import Trial

DONE = [Trial(1.0, 1.01, 0.1, 1.0)] * CONFIRMED
TIMEOUT = ("timeout", "no result after 9 s")


def go_on(past: ResumeState, runner: Pretender | None = None, cases: list[Case] = CASES) -> tuple[Pretender, Log]:
    runner, log = runner or Pretender(steady), Log()
    layers = {"attention.fused": Layer("attention", True)}
    Scheduler(cases, layers, PRECISION, runner, log, log, sleep=lambda _: None, past=past).run()
    return runner, log


def test_what_is_finished_is_not_run_at_all() -> None:
    past = ResumeState(trials=dict.fromkeys(CASES, DONE), facts=frozenset(CASES))
    runner, log = go_on(past)
    assert runner.asked == []
    assert log.rows == []
    assert log.finishes == dict.fromkeys(CASES, "ok")


def test_only_what_is_missing_is_measured_and_what_is_measured_is_verified_again() -> None:
    done, begun, without_facts, new = CASES
    past = ResumeState(trials={done: DONE, begun: DONE[:2], without_facts: DONE}, facts=frozenset([done, begun]))
    runner, log = go_on(past)
    asked = Counter(runner.asked)
    assert {purpose for purpose, case in asked if case == done} == set()
    assert asked["time", begun] == CONFIRMED - 2
    assert ("facts", begun) not in asked
    assert (asked["facts", without_facts], asked["time", without_facts]) == (1, 1)  # one round judges the case
    assert (asked["facts", new], asked["time", new]) == (1, CONFIRMED)
    assert {row["key"] for row in log.rows if row["purpose"] == "verify"} == {
        case.key for case in (begun, without_facts, new)
    }


def test_rounds_are_counted_on() -> None:
    past = ResumeState(trials={CASES[0]: DONE[:2]}, facts=frozenset(CASES))
    _, log = go_on(past, cases=CASES[:1])
    assert [row["round"] for row in log.rows if row["purpose"] == "time"] == [3, 4, 5]


def test_a_new_trial_gets_a_round_above_all_that_were_ever_read() -> None:
    past = ResumeState(trials={CASES[0]: DONE[:2]}, rounds={CASES[0]: 4}, facts=frozenset(CASES))
    _, log = go_on(past, cases=CASES[:1])
    assert [row["round"] for row in log.rows if row["purpose"] == "time"] == [5, 6, 7]


def test_what_has_failed_stays_so_and_is_not_run() -> None:
    runner, log = go_on(ResumeState(failures={CASES[0]: TIMEOUT}))
    assert all(case != CASES[0] for purpose, case in runner.asked if purpose != "verify")
    assert log.finishes[CASES[0]] == "timeout"
    assert CASES[0].key not in {row["key"] for row in log.rows}


def test_what_is_to_be_tried_again_says_so_in_a_row_and_is_run() -> None:
    past = ResumeState(failures={CASES[0]: TIMEOUT, CASES[1]: ("oom", "no")}).reopening(["timeout"])
    _, log = go_on(past)
    assert (log.finishes[CASES[0]], log.finishes[CASES[1]]) == ("ok", "oom")
    (first,) = [row for row in log.rows if row["purpose"] == "reopen"]
    assert (first["key"], first["status"], first["reason"]) == (CASES[0].key, "ok", "after timeout: " + TIMEOUT[1])
    of_case = [row["purpose"] for row in log.rows if row["key"] == CASES[0].key]
    assert of_case[:3] == ["reopen", "verify", "facts"]


def test_the_machine_at_its_best_is_remembered() -> None:
    """The best probe of an earlier sweep shows that the machine is disturbed now."""

    def disturbed(case: Case, number: int) -> dict[str, Any]:
        return steady(case, number, probe_s=1.5)

    past = ResumeState(trials={CASES[0]: DONE}, facts=frozenset(CASES))
    runner = Pretender(disturbed)
    runner.probe_s = 1.5
    _, log = go_on(past, runner, CASES[:2])
    assert ("again", 1) in log.phases


def test_what_was_compiled_is_not_compiled_again_but_known_to_take_so_long() -> None:
    runner = Pretender(steady, verify={"status": "ok", "reason": None, "compiled": True})
    go_on(ResumeState(compiles_s={CASES[0]: 7.5}), runner, CASES[:2])
    assert runner.order("compile") == [CASES[1]]
    assert runner.learnt[CASES[0]] == 7.5
