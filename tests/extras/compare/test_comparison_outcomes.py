"""A comparison in the words of every gate, and the exit status that it amounts to."""

from dataclasses import replace

import pytest
from extras.compare.comparisons import CASE, blocks, comparison, line, of_lines

from harness.extras.compare.report import outcomes_of, pair_label, ratio_text, smallest_visible_difference
from harness.study.check.check_rules import Verdict, exit_status


@pytest.mark.parametrize(
    ("measured", "verdict", "status"),
    [
        (blocks(1.0), "passed", 0),
        (blocks(1.2, again=1.2), "regression", 1),
        (blocks(0.8, again=0.8), "improved", 0),
        (blocks(1.03), "undecided", 0),
        (blocks(1.2, again=1.0), "undecided", 0),
        (blocks(1.0, failure="head: killed: by SIGKILL"), "unmeasured", 3),
    ],
)
def test_what_is_found_of_time_decides(measured: object, verdict: str, status: int) -> None:
    found = outcomes_of(comparison([measured]))  # type: ignore[list-item]
    assert [(one.quantity, one.verdict.outcome) for one in found] == [
        ("time", verdict),
        ("peak memory", "passed"),
        ("flops", "passed"),
    ]
    assert exit_status(found) == status


@pytest.mark.parametrize("measured", [blocks(1.0), blocks(1.2, again=1.2), blocks(1.03)])
def test_where_the_control_failed_nothing_passes(measured: object) -> None:
    found = outcomes_of(comparison([measured], control=blocks(1.2)))  # type: ignore[list-item]
    assert found[0].verdict.outcome == "unmeasured"
    assert exit_status(found) == 3


def test_more_memory_or_flops_is_a_regression_whatever_the_time() -> None:
    found = outcomes_of(of_lines(line(CASE), line(CASE, flops=2000, peak_bytes=20_000), blocks(1.0)))
    assert [one.verdict.outcome for one in found] == ["passed", "regression", "regression"]
    assert exit_status(found) == 1
    disarmed = comparison([blocks(1.0)], control=blocks(1.2))
    more = replace(disarmed.compared[0], flops=replace(disarmed.compared[0].flops, verdict=Verdict.WORSE, now=2000))
    assert exit_status(outcomes_of(replace(disarmed, compared=(more,)))) == 1


@pytest.mark.parametrize(
    ("base", "head"),
    [("ok", "error"), ("unsupported", "unsupported"), ("error", "ok")],
)
def test_where_nothing_could_be_timed_nothing_passes(base: str, head: str) -> None:
    found = outcomes_of(of_lines(line(CASE, base, "no"), line(CASE, head, "no"), None))
    assert found[0].verdict.outcome == "unmeasured"
    assert exit_status(found) == 3


def test_what_the_base_could_not_do_either_is_no_failure_of_the_head() -> None:
    timed = comparison([blocks(1.0), blocks(1.0)])
    lost = replace(timed.compared[1], time=None, verdict=Verdict.UNDECIDED, reason="base: unsupported: no")
    found = outcomes_of(replace(timed, compared=(timed.compared[0], lost)))
    assert [one.verdict.outcome for one in found if one.quantity == "time"] == ["passed", "undecided"]
    assert exit_status(found) == 0
    lost = replace(lost, verdict=Verdict.UNMEASURED, reason="head: error: no such luck")
    assert exit_status(outcomes_of(replace(timed, compared=(timed.compared[0], lost)))) == 3


def test_a_ratio_is_read_with_its_interval_where_it_has_one() -> None:
    few, many = (comparison([blocks(1.2, number=number)]).compared[0].time for number in (3, 20))
    assert few is not None
    assert many is not None
    assert ratio_text(few.evidence) == "×1.200"
    assert ratio_text(many.evidence).startswith("×1.200 (1.19")
    assert smallest_visible_difference(few) == "3 blocks are too few to see anything"


def test_that_page_faults_are_not_timed_goes_without_saying() -> None:
    assert pair_label(CASE) == "attention.fused n=64 d=16 h=2"
    assert pair_label(replace(CASE, allocator="default")) == "attention.fused n=64 d=16 h=2 allocator=default"
    assert pair_label(replace(CASE, allocator="fresh")) == "attention.fused n=64 d=16 h=2 fresh"
    assert pair_label(replace(CASE, allocator="default", device="cuda")) == "attention.fused n=64 d=16 h=2 cuda"
