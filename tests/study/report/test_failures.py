"""Cases without a cost."""

from dataclasses import replace

import pytest
from rows import usual_lines
from screens.text_file import printed, terminal
from study.report.many import many_lines, without

from harness.study.analyse import analyse
from harness.study.report.figure_panels import expected_cost
from harness.study.report.report_data import Contents, show_answer
from harness.study.report.text.cautions import failure_remarks, failures_table


def test_cases_that_failed_alike_belong_together() -> None:
    first, second, third, *_ = usual_lines()
    oom = [replace(line, status="oom", reason="out of memory") for line in (first, second)]
    late = replace(third, status="timeout", reason=None)
    rows = failures_table([*oom, late]).rows
    assert [(status, reason.text, number) for _, status, number, _, reason in rows] == [
        ("oom", "out of memory", "2"),
        ("timeout", "", "1"),
    ]
    assert rows[0][-1].aside == "n=64 d=128 h=2 forward, n=64 d=128 h=8 forward"


def test_reasons_that_differ_in_numbers_alone_are_one_with_the_range_of_each_number() -> None:
    told = [
        "took 9.5 s at n = 1,024",
        "took 12 s at n = 64",
        "took 12 s at n = #",
        "no <a.B object at 0x7f>",
        "no <a.B object at 0x8>",
        "torch 2.6.0 lacks -5",
        "torch 2.6.0 lacks -10",
    ]
    failed = [replace(line, status="error", reason=reason) for line, reason in zip(usual_lines(), told, strict=False)]
    reasons = [
        "took 9.5 – 12 s at n = 64 – 1,024",
        "took 12 s at n = #",
        "no <a.B object at …>",
        "torch 2.6.0 lacks -10 – -5",
    ]
    assert [row[-1].text for row in failures_table(failed).rows] == reasons
    assert [remark.partition(": ")[2].partition(": ")[2] for remark in failure_remarks(failed)] == reasons


def test_a_narrow_screen_has_every_reason_of_many_failures() -> None:
    lines = many_lines()
    impls = list(dict.fromkeys(line.impl for line in lines))[:12]
    for impl in impls:
        lines = without(lines, impl, "error", f"{impl} lacks a kernel")
    contents, console = Contents(lines, analyse(lines)), terminal(60)
    show_answer(contents, console)
    text = " ".join(printed(console).split())
    assert [impl for impl in impls if f"{impl} lacks a kernel" not in text] == []


def test_what_is_ok_is_no_failure() -> None:
    assert failures_table(usual_lines()).rows == []


def test_a_failed_case_would_lie_on_the_line_through_its_neighbours() -> None:
    assert expected_cost(400, [(100, 1.0), (200, 4.0)]) == pytest.approx(16.0)
    assert expected_cost(400, [(10, 99.0), (100, 1.0), (200, 4.0)]) == pytest.approx(16.0)
    assert expected_cost(400, [(100, 1.0)]) == 1.0
    assert expected_cost(400, []) is None
