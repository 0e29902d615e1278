"""What compiling took is of the trial that compiled, not of those that loaded what it made."""

from typing import Any

import pytest
from rows import PRECISION, measured, row

from harness.core.model.sweep_axes import Case
from harness.core.results.row import InvalidRow
from harness.core.results.row_files import RunAccumulator
from harness.core.results.summarise import summarise

CASE = Case("attention.fused", 64, 32, 2)


def loading(case: Case) -> list[dict[str, Any]]:
    return [{**one, "compile_s": 0.5} if one["purpose"] == "time" else one for one in measured(case, 0.002, 4096)]


def test_the_compiling_trial_has_the_word() -> None:
    (line,) = summarise([row(CASE, "compile", compile_s=17.5), *loading(CASE)], PRECISION)
    assert line.compile_s == 17.5


def test_without_one_it_is_what_first_calls_took() -> None:
    assert summarise(loading(CASE), PRECISION)[0].compile_s == 0.5


def test_it_is_kept_where_the_case_failed_later() -> None:
    rows = [row(CASE, "compile", compile_s=17.5), row(CASE, "time", 1, status="timeout", reason="no result")]
    (line,) = summarise(rows, PRECISION)
    assert (line.status, line.compile_s) == ("timeout", 17.5)


@pytest.mark.parametrize("value", [None, "long", -1.0, float("nan"), float("inf")])
def test_a_row_without_a_time_to_compile_is_refused(value: Any) -> None:
    with pytest.raises(InvalidRow):
        RunAccumulator().add(row(CASE, "compile", compile_s=value))
