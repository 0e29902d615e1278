"""Layers that cheat, by mistake or not: with lazy outputs, the clock, `prepare` and threads of their own."""

from statistics import median

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor


def late(name: str, **axes) -> Case:
    return Case(f"core.trial.late:{name}", 32, 8, 1, **axes)


@pytest.mark.parametrize("purpose", ["verify", "facts"])
def test_a_subclass_of_a_tensor_is_refused_because_it_may_compute_later(runner: Executor, purpose: str) -> None:
    outcome = runner.run(purpose, late("ReturnsLazily"))
    assert outcome.status == "incorrect"
    assert outcome.reason.startswith("it returned a Lazy, a subclass of Tensor")


def test_it_is_refused_too_if_only_the_timed_calls_return_it(runner: Executor) -> None:
    assert runner.run("time", late("LazyAfterSomeCalls")).status == "incorrect"


def test_a_layer_that_slows_the_clock_is_timed_by_the_right_one(runner: Executor) -> None:
    outcome = runner.run("time", late("SlowsTheClock"))
    assert outcome.status == "ok", outcome.reason
    assert 2e-3 < median(outcome.values["samples_s"]) < 0.1


def test_the_time_to_prepare_is_known_and_no_part_of_the_call(runner: Executor) -> None:
    outcome = runner.run("time", late("PreparesMuch"))
    assert outcome.values["prepare_s"] > 20e-3 > 4 * min(outcome.values["samples_s"])
    assert runner.run("time", Case("attention.fused", 32, 8, 2)).values["prepare_s"] is None


def test_a_result_that_was_prepared_is_incorrect(runner: Executor) -> None:
    outcome = runner.run("verify", late("PreparesItsResult"))
    assert outcome.status == "incorrect"


def test_a_layer_that_returns_before_its_result_is_incorrect(runner: Executor) -> None:
    outcome = runner.run("time", late("ReturnsBeforeItsResult"))
    assert (outcome.status, outcome.reason.split(":")[0]) == (
        "incorrect",
        "its output changes after the call has returned",
    )


def test_threads_that_work_on_are_known_and_idle_ones_are_none(runner: Executor) -> None:
    assert runner.run("time", late("WorksOn")).values["threads_after"] > 0.25
    assert runner.run("time", late("HasAnIdleThread")).values["threads_after"] < 0.05
    assert runner.run("time", late("StartsWithABusyThread")).values["threads_after"] < 0.05


def test_threads_are_watched_also_of_a_layer_that_changes_its_input(runner: Executor) -> None:
    assert runner.run("time", late("WorksOnInPlace")).values["threads_after"] > 0.25


def test_a_call_that_lowers_the_number_of_threads_is_not_timed_with_those_of_the_case(runner: Executor) -> None:
    outcome = runner.run("time", Case("core.trial.late:LowersThreads", 64, 8, 1, threads=4))
    assert outcome.status == "unsupported"
    assert "set_num_threads" in outcome.reason


def test_a_sparse_output_is_refused(runner: Executor) -> None:
    outcome = runner.run("verify", late("Sparse"))
    assert outcome.reason.startswith("it returned a sparse tensor, which may compute its values later")


@pytest.mark.parametrize("n", [8, 64, 512])
def test_a_thread_that_works_after_each_call_is_known_at_every_size(runner: Executor, n: int) -> None:
    assert runner.run("time", Case("core.trial.late:WorksLater", n, 8, 1)).values["threads_after"] > 0.25


@pytest.mark.parametrize("impl", ["attention.packed", "rnn.torch"])
@pytest.mark.parametrize("mode", ["forward", "train"])
def test_threads_of_torch_are_no_threads_of_the_layer(runner: Executor, impl: str, mode: str) -> None:
    outcome = runner.run("time", Case(impl, 256, 64, 1, mode=mode, threads=2))
    assert outcome.values["threads_after"] == 0.0
