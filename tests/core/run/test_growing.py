"""Sizes are doubled until a layer fails, separately for each layer."""

from typing import Any

import pytest
from core.run.test_scheduler import PRECISION, Log, Pretender, steady

from harness.core.layers.layer_lookup import Layer
from harness.core.model.sweep_axes import AXES, Case
from harness.core.run.scheduler import NO_PAST, ResumeState, Scheduler
from harness.core.stats.estimate import Trial

LAYERS = {"attention.fused": Layer("attention", True), "rnn.elman": Layer("rnn", False)}
FUSED, ELMAN = Case("attention.fused", 64, 16, 2), Case("rnn.elman", 64, 16, 1)


def until(largest: dict[str, int], axis: str = "seq_len", status: str = "timeout") -> Pretender:
    """A fake runner in which each layer's timed trials succeed up to a size."""

    def time(case: Case, number: int) -> dict[str, Any]:
        well = getattr(case, axis) <= largest[case.impl]
        return steady(case, number) if well else {"status": status, "reason": "too large"}

    return Pretender(time)


def grown(cases: list[Case], runner: Pretender, axis: str = "seq_len", past: ResumeState = NO_PAST) -> Log:
    log = Log()
    Scheduler(cases, LAYERS, PRECISION, runner, log, log, sleep=lambda _: None, past=past, grow=axis).run()
    return log


def test_each_layer_goes_as_far_as_it_can_and_says_where_it_gave_out() -> None:
    log = grown([FUSED, ELMAN], until({"attention.fused": 512, "rnn.elman": 100}))
    ends = {(case.impl, case.seq_len): status for case, status in log.finishes.items()}
    assert ends == {
        ("attention.fused", 64): "ok",
        ("attention.fused", 128): "ok",
        ("attention.fused", 256): "ok",
        ("attention.fused", 512): "ok",
        ("attention.fused", 1024): "timeout",
        ("rnn.elman", 64): "ok",
        ("rnn.elman", 128): "timeout",
    }
    assert log.more == log.finishes.keys() - {FUSED, ELMAN}


def test_it_begins_at_the_largest_of_each_grid_line() -> None:
    small, large, wide = FUSED, FUSED.at("seq_len", 256), FUSED.at("d_model", 32)
    log = grown([small, large, wide], until({"attention.fused": 256}))
    assert {(case.seq_len, case.d_model) for case in log.more} == {(512, 16), (128, 32), (256, 32), (512, 32)}


def test_what_it_grows_into_is_verified_has_its_facts_and_all_its_rounds() -> None:
    runner = until({"attention.fused": 128})
    log = grown([FUSED], runner)
    larger = FUSED.at("seq_len", 128)
    purposes = [row["purpose"] for row in log.rows if row["key"] == larger.key]
    assert purposes[:3] == ["verify", "facts", "time"]
    assert runner.order("time").count(larger) == runner.order("time").count(FUSED) > 3
    # n = 512 is verified at 256, which is verified only once.
    kinds = [case.seq_len for case in until({"attention.fused": 512}).order("verify") if case]
    assert len(set(kinds)) == len(kinds)


def test_what_does_not_end_well_at_the_start_does_not_grow() -> None:
    assert grown([FUSED], until({"attention.fused": 1})).more == set()


def test_another_axis_grows_alike() -> None:
    log = grown([FUSED], until({"attention.fused": 64}, axis="d_model", status="oom"), axis="d_model")
    assert {case.d_model: status for case, status in log.finishes.items()} == {16: "ok", 32: "ok", 64: "ok", 128: "oom"}


def test_nothing_grows_beyond_what_an_axis_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(AXES, "seq_len", AXES["seq_len"]._replace(most=200))
    log = grown([FUSED], until({"attention.fused": 10**9}))
    assert {case.seq_len for case in log.finishes} == {64, 128}


def test_going_on_it_finds_where_it_was() -> None:
    done = [Trial(1.0, 1.01, 0.1, 1.0)] * 5
    cases = [FUSED.at("seq_len", n) for n in (64, 128, 256)]
    past = ResumeState(
        trials={cases[0]: done, cases[1]: done[:1]}, facts=frozenset(cases[:2]), failures={cases[2]: ("oom", "no")}
    )
    runner = until({"attention.fused": 10**9})
    log = grown([FUSED], runner, past=past)
    assert log.finishes == {cases[0]: "ok", cases[1]: "ok", cases[2]: "oom"}
    assert runner.order("time") == [cases[1]] * 4
