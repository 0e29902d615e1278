"""The order of trials in a sweep, with a fake runner."""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

import pytest
from rows import outcome_of

from harness.core.config import Precision
from harness.core.layers.layer_lookup import Layer
from harness.core.model.sweep_axes import Case
from harness.core.run.outcome import TrialOutcome
from harness.core.run.scheduler import Scheduler

CASES = [Case("attention.fused", n, 16, 2) for n in (8, 16, 32, 512)]
PRECISION = Precision(target=0.05, min_rounds=3, max_rounds=7, trial_s=0.1, timeout_s=9, case_s=100, patience_s=2)
# The interval is narrow after the fewest rounds. Half as many more confirm it.
CONFIRMED = 5


class Pretender:
    """A fake runner that answers every purpose. The test's `time` answers by case and number of the trial."""

    def __init__(
        self,
        time: Callable[[Case, int], dict[str, Any]],
        verify: dict[str, Any] | None = None,
        compile: dict[str, Any] | None = None,
    ) -> None:
        self._time, self._verify = time, verify or {"status": "ok", "reason": None}
        self._compile = compile or {"compile_s": 2.5}
        self.asked: list[tuple[str, Case | None]] = []
        self.probe_s = 1.0
        self.learnt: dict[Case, float | None] = {}
        self.compiling = self

    def run(self, purpose: str, case: Case | None = None) -> TrialOutcome:
        self.asked.append((purpose, case))
        return outcome_of(self._entries(purpose, case))

    def _entries(self, purpose: str, case: Case | None) -> dict[str, Any]:
        if purpose == "time":
            return self._time(case, self.asked.count(("time", case)))
        if purpose == "probe":
            return {"probe_s": self.probe_s}
        if purpose == "compile":
            return self._compile
        return self._verify if purpose == "verify" else {"peak_bytes": 1}

    def learn(self, purpose: str, case: Case, outcome: TrialOutcome) -> None:
        self.learnt[case] = outcome.values.get("compile_s")

    def order(self, purpose: str) -> list[Case]:
        return [case for asked, case in self.asked if asked == purpose]


class Log:
    """A sink and a watcher in one."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.finishes: dict[Case, str] = {}
        self.phases: list[tuple[str, int]] = []
        self.more: set[Case] = set()

    def write(self, row: dict[str, Any]) -> None:
        self.rows.append(row)

    def starting(self, phase: str, number: int) -> None:
        self.phases.append((phase, number))

    def trial(self, purpose: str, case: Case, outcome: TrialOutcome) -> None:
        pass

    def finished(self, case: Case, status: str) -> None:
        self.finishes[case] = status

    def added(self, cases: Collection[Case]) -> None:
        self.more.update(cases)


def sweep(runner: Pretender, cases: list[Case] = CASES, precision: Precision = PRECISION, seed: int = 0) -> Log:
    log = Log()
    layers = {"attention.fused": Layer("attention", True)}
    Scheduler(cases, layers, precision, runner, log, log, seed, sleep=lambda _: None).run()
    return log


def steady(case: Case, number: int, probe_s: float | None = 1.0) -> dict[str, Any]:
    return {"samples_s": [1.0, 1.01], "probe_s": probe_s}


def jumpy(case: Case, number: int) -> dict[str, Any]:
    return {"samples_s": [1.0 + 0.5 * number], "probe_s": 1.0}


def test_a_case_stops_once_precise_and_every_trial_is_a_row() -> None:
    log = sweep(runner := Pretender(steady))
    assert Counter(runner.order("time")) == dict.fromkeys(CASES, CONFIRMED)
    assert log.finishes == dict.fromkeys(CASES, "ok")
    assert Counter(row["purpose"] for row in log.rows) == {"verify": 4, "facts": 4, "time": 4 * CONFIRMED}


def test_a_case_that_stays_unsure_gets_all_its_rounds_and_no_more() -> None:
    sweep(runner := Pretender(jumpy))
    assert Counter(runner.order("time")) == dict.fromkeys(CASES, PRECISION.max_rounds)


def test_a_trial_on_a_gpu_counts_with_the_median_of_its_samples_as_in_the_summary() -> None:
    def with_a_fast_moment(case: Case, number: int) -> dict[str, Any]:
        return {"samples_s": [0.2 + 0.1 * number, 1.0, 1.01], "probe_s": 1.0}

    on_gpu = [replace(case, device="cuda") for case in CASES]
    sweep(runner := Pretender(with_a_fast_moment), on_gpu)
    assert Counter(runner.order("time")) == dict.fromkeys(on_gpu, CONFIRMED)


def test_each_round_visits_every_open_case_once_in_an_order_of_its_own() -> None:
    sweep(runner := Pretender(jumpy))
    order = runner.order("time")
    rounds = [order[i : i + len(CASES)] for i in range(0, len(order), len(CASES))]
    assert all(set(one) == set(CASES) for one in rounds)
    assert len({tuple(one) for one in rounds}) > 1
    sweep(again := Pretender(jumpy))
    assert again.order("time") == order
    sweep(other := Pretender(jumpy), seed=1)
    assert other.order("time") != order


def test_facts_come_before_times_and_in_trials_of_their_own() -> None:
    sweep(runner := Pretender(steady))
    purposes = [purpose for purpose, _ in runner.asked]
    assert purposes.index("time") > max(i for i, purpose in enumerate(purposes) if purpose == "facts")


def test_facts_can_be_taken_and_nothing_timed() -> None:
    log, runner = Log(), Pretender(steady)
    layers = {"attention.fused": Layer("attention", True)}
    Scheduler(CASES, layers, PRECISION, runner, log, log, sleep=lambda _: None).prepare()
    assert [row["purpose"] for row in log.rows] == ["verify"] * 4 + ["facts"] * 4
    assert runner.order("time") == runner.order("probe") == []


def test_one_verification_serves_all_cases_of_a_kind() -> None:
    sweep(runner := Pretender(steady))
    # n = 512 is verified at 256. The other cases are small enough themselves.
    assert [case.seq_len for case in runner.order("verify")] == [8, 16, 32, 256]


def test_a_wrong_layer_is_not_timed() -> None:
    log = sweep(runner := Pretender(steady, verify={"status": "incorrect", "reason": "off"}))
    assert runner.order("time") == runner.order("facts") == []
    assert log.finishes == dict.fromkeys(CASES, "incorrect")


def test_a_case_that_fails_is_finished_and_the_others_go_on() -> None:
    def time(case: Case, number: int) -> dict[str, Any]:
        return (
            {"status": "killed", "reason": "by SIGKILL"} if case == CASES[0] and number == 2 else steady(case, number)
        )

    log = sweep(runner := Pretender(time))
    assert log.finishes == {**dict.fromkeys(CASES, "ok"), CASES[0]: "killed"}
    assert runner.order("time").count(CASES[0]) == 2


def test_what_cannot_be_is_a_row_with_its_reason_and_never_run() -> None:
    impossible = Case("attention.fused", 8, 10, 3)
    log = sweep(runner := Pretender(steady), [impossible])
    assert runner.asked == []
    assert [(row["status"], row["reason"]) for row in log.rows] == [
        ("unsupported", "d_model=10 is not divisible by num_heads=3")
    ]


def test_a_case_has_its_time_limit_once_it_has_three_trials() -> None:
    def slow(case: Case, number: int) -> dict[str, Any]:
        return {**jumpy(case, number), "wall_s": 60.0}

    sweep(runner := Pretender(slow))
    assert Counter(runner.order("time")) == dict.fromkeys(CASES, 3)


def test_a_case_disturbed_in_all_its_rounds_is_repeated_in_a_quiet_moment() -> None:
    def time(case: Case, number: int) -> dict[str, Any]:
        disturbed = case == CASES[0] and number <= PRECISION.max_rounds
        return {"samples_s": [1.3 if disturbed else 1.0], "probe_s": 1.3 if disturbed else 1.0}

    log = sweep(runner := Pretender(time))
    counts = Counter(runner.order("time"))
    assert counts[CASES[0]] == PRECISION.max_rounds + 2
    assert {counts[case] for case in CASES[1:]} == {CONFIRMED}
    assert ("again", 1) in log.phases


def test_patience_with_a_restless_machine_ends() -> None:
    def time(case: Case, number: int) -> dict[str, Any]:
        return {"samples_s": [1.3], "probe_s": 1.0 if case == CASES[1] else 1.3}

    runner = Pretender(time)
    runner.probe_s = 1.3
    sweep(runner)
    assert Counter(runner.order("time"))[CASES[0]] == PRECISION.max_rounds
    assert len(runner.order("probe")) == pytest.approx(PRECISION.patience_s / 0.25, abs=1)


def test_another_environment_has_a_probe_of_its_own_and_is_verified_by_itself() -> None:
    cases = [replace(CASES[0], env=env) for env in ("default", "a")]
    runner = Pretender(lambda case, number: steady(case, number, probe_s=2.0 if case.env == "a" else 1.0))
    sweep(runner, cases)
    assert runner.order("verify") == sorted(cases)
    assert runner.order("probe") == []
    assert Counter(runner.order("time")) == dict.fromkeys(cases, CONFIRMED)


def test_without_a_probe_nothing_counts_as_disturbed() -> None:
    sweep(runner := Pretender(lambda case, number: steady(case, number, probe_s=None)))
    assert runner.order("probe") == []


COMPILED = {"status": "ok", "reason": None, "compiled": True}


def test_a_case_that_compiles_does_so_once_before_anything_else_is_taken_of_it() -> None:
    log = sweep(runner := Pretender(steady, verify=COMPILED))
    purposes = [purpose for purpose, _ in runner.asked]
    assert Counter(runner.order("compile")) == dict.fromkeys(CASES, 1)
    last = max(i for i, purpose in enumerate(purposes) if purpose == "compile")
    assert last < purposes.index("facts") < purposes.index("time")
    assert [row["compile_s"] for row in log.rows if row["purpose"] == "compile"] == [2.5] * len(CASES)
    assert log.finishes == dict.fromkeys(CASES, "ok")


def test_what_does_not_compile_has_no_such_trial() -> None:
    log = sweep(runner := Pretender(steady, verify={**COMPILED, "compiled": False}))
    assert runner.order("compile") == []
    assert "compile" not in [phase for phase, _ in log.phases]


def test_a_case_that_cannot_be_compiled_is_finished_and_not_timed() -> None:
    log = sweep(runner := Pretender(steady, COMPILED, {"status": "error", "reason": "it was not compiled: …"}))
    assert runner.order("facts") == runner.order("time") == []
    assert log.finishes == dict.fromkeys(CASES, "error")


def test_a_wrong_layer_is_not_compiled_again() -> None:
    sweep(runner := Pretender(steady, verify={**COMPILED, "status": "incorrect", "reason": "off"}))
    assert runner.order("compile") == []


def test_who_watches_is_told_of_as_many_cases_as_a_phase_will_end_with() -> None:
    log = sweep(Pretender(steady))
    assert log.phases[:2] == [("verify", len(CASES)), ("facts", len(CASES))]
    assert [row["purpose"] for row in log.rows[: 2 * len(CASES)]] == ["verify"] * len(CASES) + ["facts"] * len(CASES)
