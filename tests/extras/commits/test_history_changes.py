"""What a history says has changed: from known numbers, without a clock."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from extras.commits.histories import CASE, MODEL, blessing, commit, directly, history, ratio, stepping
from test_gpu_states import machine

from harness.core.config.machine import kind_of_machine
from harness.extras.commits.history_changes import (
    Confirmation,
    TimeChange,
    fact_changes,
    machine_text,
    time_changes,
    time_series,
    unblessed_regressions,
)
from harness.extras.commits.history_file import (
    ABSENT,
    Blessing,
    CommitLine,
    CostModel,
    DirectComparison,
    History,
    MeasuredCase,
    Ratio,
)
from harness.extras.commits.history_page import history_page
from harness.study.check.check_rules import Verdict

OTHER = {"processor": "Xeon", "threads": "2"}


def steps(found: History, threshold: float = 0.03) -> list[TimeChange]:
    return time_changes(found, time_series(found), threshold)


def test_a_fact_changes_at_the_commit_that_has_another_value() -> None:
    found = history(*map(commit, range(3)), *(commit(number, facts={"flops": 1200}) for number in (3, 4)))
    (change,) = fact_changes(found)
    assert (change.after.number, change.quantity, change.was, change.now) == (3, "FLOPs", "1,000", "1,200")
    assert (change.verdict, change.is_over) == (Verdict.WORSE, False)
    assert unblessed_regressions(found, [change], []) == [change]


def test_a_change_that_was_undone_or_is_blessed_is_no_reason_to_fail() -> None:
    undone = history(commit(0), commit(1, facts={"flops": 1200}), commit(2))
    assert [change.is_over for change in fact_changes(undone)] == [True, True]
    assert unblessed_regressions(undone, fact_changes(undone), []) == []
    blessed = history(commit(0), commit(1, facts={"flops": 1200}), blessing(1))
    assert unblessed_regressions(blessed, fact_changes(blessed), []) == []


def test_commits_that_could_not_be_measured_may_hold_the_change() -> None:
    found = history(commit(0), commit(1, cases={}, models={}, reason="killed"), commit(2, facts={"ops": 9}))
    (change,) = fact_changes(found)
    assert (change.after.number, change.between, change.verdict) == (2, 1, Verdict.BETTER)


def models(exponent_n: float | None, **own: float) -> dict[str, Any]:
    return {"models": {MODEL: CostModel(law="x", exponent_n=exponent_n, own_exponents=own)}}


@pytest.mark.parametrize(
    ("values", "worse", "was"),
    [
        ([{"facts": {"flops": flops}} for flops in (1000, None, 2000)], 2, "1,000"),
        ([{"facts": {"depth": depth}} for depth in (5, None, None, 10)], 3, "5"),
        ([{"facts": {"depth": depth}} for depth in (5, None, 5)], None, ""),
        ([{"facts": {"depth": depth}} for depth in (None, 5, 5)], None, ""),
        ([{"facts": {"depth": depth}} for depth in (5, 10, None)], 1, "5"),
        ([models(exponent) for exponent in (1, None, 2)], 2, "x, exponent 1"),
        ([models(exponent) for exponent in (1, None, 1)], None, ""),
        ([models(exponent) for exponent in (1, 2, None)], 1, "x, exponent 1"),
        ([models(1, w=1), models(1), models(1, w=2)], 2, "x, exponent 1, exponent in w 1"),
    ],
)
def test_an_unknown_value_hides_no_change_for_the_worse(
    values: list[dict[str, Any]], worse: int | None, was: str
) -> None:
    found = history(*(commit(number, **value) for number, value in enumerate(values)))
    regressions = unblessed_regressions(found, fact_changes(found), [])
    assert [change.after.number for change in regressions] == ([] if worse is None else [worse])
    for change in regressions:
        assert (change.before.number, change.was, change.between) == (0, was, worse - 1)


def test_another_version_of_torch_is_named_beside_the_change() -> None:
    found = history(commit(0), commit(1, facts={"depth": 6}, versions={"torch": "2.14.0"}))
    assert fact_changes(found)[0].versions == "torch 2.13.0 → 2.14.0"


def test_a_layer_that_fails_is_worse_and_a_layer_that_is_new_is_not() -> None:
    failing = {CASE: MeasuredCase(reason="incorrect: differs by 3")}
    (change,) = fact_changes(history(commit(0), commit(1, cases=failing, models={})))
    assert (change.quantity, change.now, change.verdict) == ("Status", "incorrect: differs by 3", Verdict.WORSE)
    new = history(commit(0, cases={}, models={}, layers={"mine:Layer": ABSENT}), commit(1))
    assert [(one.quantity, one.verdict) for one in fact_changes(new)] == [("Layer", Verdict.EQUIVALENT)]


def test_an_exponent_that_rises_is_worse() -> None:
    steeper = {key: CostModel(law="8nd² + n²", exponent_n=1.5) for key in commit(0).models}
    (change,) = fact_changes(history(commit(0), commit(1, models=steeper)))
    assert (change.now, change.verdict) == ("8nd² + n², exponent 1.5", Verdict.WORSE)
    assert change.quantity == "Cost model of FLOPs"


def test_an_exponent_along_an_own_axis_that_rises_is_worse() -> None:
    def models(w: float) -> dict[str, CostModel]:
        return {key: CostModel(law="4nwd", exponent_n=1.0, own_exponents={"w": w}) for key in commit(0).models}

    (change,) = fact_changes(history(commit(0, models=models(1.0)), commit(1, models=models(2.0))))
    assert (change.now, change.verdict) == ("4nwd, exponent 1, exponent in w 2", Verdict.WORSE)


def test_a_step_is_a_candidate_until_both_commits_are_directly_compared() -> None:
    lines = stepping({6: 0.08})
    (change,) = steps(history(*lines))
    assert (change.before.number, change.after.number, change.verdict) == (5, 6, Confirmation.OPEN)
    assert change.step.lo < 0.08 < change.step.hi
    assert unblessed_regressions(history(*lines), [], [change]) == []
    confirmed = history(*lines, directly(5, 6, 0.08))
    assert [one.verdict for one in steps(confirmed)] == [Confirmation.CONFIRMED]
    assert unblessed_regressions(confirmed, [], steps(confirmed)) == steps(confirmed)


@pytest.mark.parametrize("difference", [0.0, 0.01, -0.08])
def test_a_step_that_the_two_commits_do_not_show_is_not_confirmed(difference: float) -> None:
    found = history(*stepping({6: 0.08}), directly(5, 6, difference))
    assert [one.verdict for one in steps(found)] == [Confirmation.REFUTED]


def test_a_pair_that_could_not_be_measured_is_said_to_be_so() -> None:
    failed = directly(5, 6, 0.0).model_copy(update={"time": Ratio(reason="killed")})
    assert [one.verdict for one in steps(history(*stepping({6: 0.08}), failed))] == [Confirmation.LOST]


def test_a_smaller_step_than_the_threshold_is_none() -> None:
    found = history(*stepping({6: 0.08}))
    assert steps(found, 0.2) == []


def test_a_slowdown_that_ended_is_over() -> None:
    found = history(*stepping({4: 0.08, 8: -0.08}), directly(3, 4, 0.08), directly(7, 8, -0.08))
    assert [(one.after.number, one.verdict) for one in steps(found)] == [
        (4, Confirmation.CONFIRMED),
        (8, Confirmation.CONFIRMED),
    ]
    assert unblessed_regressions(found, [], steps(found)) == []


def timed(log_ratios: Sequence[float], first_on_another: int = 1000) -> list[CommitLine]:
    """Commits with these log ratios. Another machine measured those from `first_on_another` on."""
    lines = [commit(number, time=ratio(log_ratio, number)) for number, log_ratio in enumerate(log_ratios)]
    return [
        *lines[:first_on_another],
        *(line.model_copy(update={"machine": OTHER}) for line in lines[first_on_another:]),
    ]


def summary(*lines: CommitLine | DirectComparison | Blessing) -> tuple[list[int], str]:
    """The commits with a change for the worse that is not blessed, and the first sentences of the page."""
    _, worse, sentences = history_page(history(*lines), 0.03)
    return [change.after.number for change in worse], " ".join(sentences)


SINCE = "since 0000000000 (commit 0) (a drift: no single commit explains it)"


@pytest.mark.parametrize(
    "log_ratios",
    [
        *([each * number for number in range(40)] for each in (0.005, 0.01, 0.02)),
        [0.025 * (number // 6) for number in range(60)],
    ],
)
def test_a_drift_of_the_time_is_worse_though_each_step_is_small(log_ratios: list[float]) -> None:
    """With each candidate compared directly, and the true ratio of two neighbours found."""
    lines = timed(log_ratios)
    steady = [change for change in steps(history(*lines)) if not change.note]
    neighbours = [(change.before.number, change.after.number) for change in steady]
    compared = [directly(i, j, log_ratios[j] - log_ratios[i]) for i, j in neighbours]
    worse, sentences = summary(*lines, *compared)
    last = len(lines) - 1
    assert (worse, SINCE in sentences) == ([last], True)
    assert summary(*lines, *compared, blessing(last))[0] == []
    (drift,) = (change for change in steps(history(*lines, *compared)) if change.note)
    assert drift.step.middle == pytest.approx(log_ratios[-1], abs=0.04)


def test_a_drift_does_not_hold_a_step_that_one_commit_explains() -> None:
    lines = timed([0.025 * (min(number, 29) // 6) + 0.1 * (number >= 30) for number in range(60)])
    compared = directly(29, 30, 0.1)
    (drift, step) = (change for change in steps(history(*lines, compared)) if change.note or change.is_worse)
    assert (drift.after.number, drift.step.middle) == (29, pytest.approx(0.1, abs=0.02))
    assert (step.after.number, step.step.middle) == (30, pytest.approx(0.1, abs=0.02))
    assert summary(*lines, compared)[0] == [29, 30]
    creep = timed([0.02 * (number // 20) + 0.1 * (number >= 30) for number in range(60)])
    assert [change.note for change in steps(history(*creep, compared))] == [""]


def test_a_drift_after_a_blessed_commit_is_compared_with_it_and_confirmed_directly() -> None:
    lines = timed([0.005 * min(number, 50) for number in range(60)])
    assert summary(*lines[:30], blessing(29))[0] == []
    (drift,) = steps(history(*lines, blessing(29)))
    assert (drift.verdict, drift.after.number) == (Confirmation.OPEN, 59)
    begin = drift.before.number
    assert 20 <= begin <= 29
    assert summary(*lines, blessing(29), directly(begin, 59, 0.1))[0] == [59]
    assert summary(*lines, blessing(29), directly(begin, 59, 0.0))[0] == []


@pytest.mark.parametrize("log_ratios", [[0.0] * 40, [0.08] * 10 + [0.0] * 10, [0.0, 0.02] * 20])
def test_a_time_without_a_rise_is_no_drift(log_ratios: list[float]) -> None:
    for draw in range(25):
        lines = [commit(at, time=ratio(level, 1000 * draw + at)) for at, level in enumerate(log_ratios)]
        assert not [change for change in steps(history(*lines)) if change.note]


before_a_step = [commit(at, facts={"peak_bytes": 100_000 + 900 * at + 50_000 * (at > 8)}) for at in range(10)]


@pytest.mark.parametrize(
    ("lines", "worse"),
    [
        ([commit(at, **models(1 + 0.03 * at)) for at in range(20)], [19]),
        ([commit(at, **models(1 + 0.03 * (at % 2))) for at in range(20)], []),
        ([commit(at, **models(1 - 0.03 * at)) for at in range(20)], []),
        ([*(commit(at, **models(1 + 0.03 * at)) for at in range(20)), blessing(19), commit(20, **models(1.57))], []),
        ([commit(at, facts={"peak_bytes": 100_000 + 900 * at}) for at in range(9)], [8]),
        ([commit(at, facts={"peak_bytes": 100_000 + 900 * (at % 2)}) for at in range(9)], []),
        ([*before_a_step, blessing(9)], [8]),
        (before_a_step, [8, 9]),
        ([*before_a_step, blessing(8), blessing(9)], []),
        ([*before_a_step, blessing(9), commit(10, facts={"peak_bytes": 100_000})], []),
        ([*(commit(at, **models(1 + 0.03 * at + (at > 8))) for at in range(10)), blessing(9)], [8]),
    ],
)
def test_a_drift_of_a_fact_is_worse_though_each_step_is_within_its_tolerance(
    lines: list[CommitLine], worse: list[int]
) -> None:
    found, sentences = summary(*lines)
    assert (found, SINCE in sentences) == (worse, bool(worse))


def test_a_slowdown_is_not_said_to_be_still_there_on_a_machine_that_did_not_see_it_come() -> None:
    level = [0.1 if 10 <= number < 20 else 0.0 for number in range(40)]
    compared = directly(9, 10, 0.1), directly(19, 20, -0.1)
    worse, sentences = summary(*timed(level, 18), *compared)
    assert worse == []
    assert (
        "(commit 10) is still there is unknown: measured on EPYC, 2 CPUs only up to 0000000000 (commit 17)."
        in sentences
    )
    assert "Changes of times cannot be seen where the kind of machine changes." in sentences
    worse, sentences = summary(*timed(level[:18]), *compared[:1])
    assert (worse, "unknown" in sentences, "kind of machine" in sentences) == ([10], False, False)


@pytest.mark.parametrize(("until", "worse"), [(40, [10]), (20, [])])
def test_another_machine_that_saw_a_slowdown_come_tells_whether_it_is_still_there(until: int, worse: list[int]) -> None:
    lines = timed([0.1 if 10 <= number < until else 0.0 for number in range(40)])
    mixed = [line.model_copy(update={"machine": OTHER}) if line.number % 3 == 0 else line for line in lines]
    assert summary(*mixed, directly(8, 10, 0.1))[0] == worse


def test_another_processor_is_a_series_of_its_own() -> None:
    """Its ratios differ without any commit that changed something."""
    lines = [
        commit(one, time=ratio(0.1 * (one % 2), one), **({"machine": OTHER} if one % 2 else {})) for one in range(12)
    ]
    found = history(*lines)
    assert sorted(one.machine for one in time_series(found)) == ["EPYC, 2 CPUs", "Xeon, 2 CPUs"]
    assert steps(found) == []


def test_other_gpu_settings_are_a_series_of_their_own() -> None:
    gpu = {"processor": "EPYC", "gpu": "H100"}
    machines = [{**gpu, "gpu_settings": f"power limit {limit_w} W"} for limit_w in (700, 500, 700)]
    found = history(*(commit(number, time=ratio(0.0), machine=one) for number, one in enumerate(machines)))
    assert {one.machine: len(one.ratios) for one in time_series(found)} == {
        "EPYC, H100, power limit 700 W": 2,
        "EPYC, H100, power limit 500 W": 1,
    }


def page(*lines: object) -> tuple[str, int]:
    text, worse, _ = history_page(history(*lines), 0.03)  # type: ignore[arg-type]
    return text, len(worse)


def test_the_page_names_candidates_and_how_to_confirm_them() -> None:
    text, worse = page(*stepping({6: 0.08}))
    assert "candidate, not confirmed" in text
    assert "history page history.jsonl threshold=0.03 --confirm" in text
    assert worse == 0


def test_the_command_to_confirm_has_the_options_of_the_page() -> None:
    found = history(*stepping({6: 0.08}))
    found.path = Path("kept/history.jsonl")
    text, _, _ = history_page(found, 0.05, Path("page.html"))
    assert "history page kept/history.jsonl threshold=0.05 -o page.html --confirm" in text


def test_a_pair_that_could_not_be_measured_is_to_be_tried_again() -> None:
    failed = directly(5, 6, 0.0).model_copy(update={"time": Ratio(reason="killed")})
    assert "--confirm" in page(*stepping({6: 0.08}), failed)[0]


def test_the_page_shows_a_blessed_change_and_escapes_its_reason() -> None:
    text, worse = page(*stepping({6: 0.08}), directly(5, 6, 0.08), blessing(6))
    assert worse == 0
    assert ">blessed<" in text
    assert "exact &lt;softmax&gt;" in text
    assert "<softmax>" not in text


def test_a_commit_message_is_never_markup() -> None:
    text, _ = page(commit(0), commit(1, subject="</script><b>x", facts={"flops": 1200}, time=ratio(0.0)))
    assert "<b>x" not in text


def test_facts_come_before_times() -> None:
    text, _ = page(*stepping({6: 0.08}), commit(12, facts={"flops": 1200}, time=ratio(0.08)))
    assert 0 < text.index('<section id="facts">') < text.index('<section id="exponents">') < text.index('id="times"')
    assert "1,200" in text


def test_a_history_without_times_says_so() -> None:
    text, _ = page(commit(0))
    assert "No commit was timed." in text


def test_a_direct_comparison_is_of_one_case() -> None:
    other = DirectComparison.model_validate({**directly(5, 6, 0.08).model_dump(), "case": "another"})
    assert [one.verdict for one in steps(history(*stepping({6: 0.08}), other))] == [Confirmation.OPEN]


def test_a_step_in_a_history_says_so_beside_the_case() -> None:
    lines = [commit(number, commit=f"{number:x}" * 40, time=ratio(0.0, number)) for number in range(6)]
    for number in range(6, 12):
        slower = ratio(0.08, number)
        lines.append(commit(number, commit=f"{number:x}" * 40, time=slower, facts={"backend": "ATen"}))
    text, _, _ = history_page(history(*lines), 0.03)
    ran = "mine:Layer ran math at 5555555555 and ATen at 6666666666"
    assert f"{ran}: the times are of different kernels." in text


def test_the_times_under_another_power_limit_are_kept_apart() -> None:
    kinds = [kind_of_machine(machine(a={}, b={"power_limit_w": limit_w})) for limit_w in (700.0, 500.0)]
    texts = [machine_text(SimpleNamespace(machine=kind)) for kind in kinds]
    assert texts[0] == "a CPU, 2 CPUs, H100, driver 570.86, power limit 700 W"
    assert texts[0] != texts[1]
