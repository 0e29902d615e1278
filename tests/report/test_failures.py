"""Cases without a cost."""

from dataclasses import replace

import pytest
from rows import usual_lines

from harness.report.figure_panels import expected_cost
from harness.report.text.cautions import failures_table


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


def test_what_is_ok_is_no_failure() -> None:
    assert failures_table(usual_lines()).rows == []


def test_a_failed_case_would_lie_on_the_line_through_its_neighbours() -> None:
    assert expected_cost(400, [(100, 1.0), (200, 4.0)]) == pytest.approx(16.0)
    assert expected_cost(400, [(10, 99.0), (100, 1.0), (200, 4.0)]) == pytest.approx(16.0)
    assert expected_cost(400, [(100, 1.0)]) == 1.0
    assert expected_cost(400, []) is None
