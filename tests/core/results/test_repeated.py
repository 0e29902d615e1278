"""A repeated row counts once and is reported, or not at all if it differs; one replaced on purpose is not reported."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from core.results.reading import new_run
from rows import PRECISION, measured, row

from harness.core.model.sweep_axes import Case
from harness.core.results import row_files
from harness.core.results.summarise import summarise_run
from harness.core.run.scheduler import read_resume_state

CASE, OTHER = Case("attention.fused", 64, 32, 2), Case("attention.fused", 128, 32, 2)
Row = dict[str, Any]


def written(rows: list[Row], since: float = 100.0) -> list[Row]:
    """The same as a sweep writes them, one a second."""
    return [{**one, "at": since + second} for second, one in enumerate(rows)]


ROWS = written([*measured(CASE, 1.0, 8), *measured(OTHER, 2.0, 8)])


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return new_run(tmp_path / "run")


def write(run: Path, rows: list[Row]) -> None:
    """As one more writer does."""
    writer = row_files.RowWriter(run)
    for one in rows:
        writer.write(one)
    writer.close()


def told(run: Path) -> list[str]:
    """The remark on the rows without the directory; a continued run gets the same one."""
    _, notices = summarise_run(run, PRECISION)
    assert read_resume_state(run)[1] == notices
    return [notice.removeprefix(f"{run}/rows: ") for notice in notices]


@pytest.mark.parametrize(
    ("index", "what"), [(0, "verify"), (1, "facts"), (2, "time, round 0"), (4, "time, round 2")], ids=str
)
@pytest.mark.parametrize("changed", [{}, {"warmup_s": 9.0}], ids=["the same", "other content that no line holds"])
def test_a_row_that_is_there_twice_is_told_and_loses_no_other(run: Path, index: int, what: str, changed: Row) -> None:
    write(run, [*ROWS, {**ROWS[index], **changed}])
    assert told(run) == [f"{CASE}, {what}: there twice, counts once"]
    assert [line.trials for line in summarise_run(run, PRECISION)[0]] == [3, 3]


def edited(run: Path, rows: list[Row], *added: Row) -> str:
    """Write rows, then others that were edited, and return the end of the notice about both files."""
    write(run, rows)
    (first,) = (run / "rows").iterdir()
    write(run, list(added))
    (second,) = set((run / "rows").iterdir()) - {first}
    return f"there twice with different values, in {first.name} and {second.name}: numbers that differ do not count"


@pytest.mark.parametrize("copies", [0, 1], ids=["one edited", "one edited and one copied"])
@pytest.mark.parametrize(
    ("changed", "left"),
    [({"samples_s": [0.1, 0.2]}, [1.001, 1.002]), ({"wall_s": 9.0}, [1.001, 1.002])],
    ids=["samples", "wall time"],
)
def test_of_a_trial_that_is_there_twice_and_differs_neither_counts(
    run: Path, changed: Row, left: list[float], copies: int
) -> None:
    again = [ROWS[2]] * copies
    how = edited(run, [*ROWS, *again], {**ROWS[2], **changed})
    copied = [f"{CASE}, time, round 0: there twice, counts once"] * copies
    assert told(run) == [f"{CASE}, time, round 0: {how}", *copied]
    past, _ = read_resume_state(run)
    assert [trial.value_s for trial in past.trials[CASE]] == left
    assert (len(past.trials[OTHER]), past.rounds[CASE]) == (3, 2)


def test_of_facts_and_a_compile_time_that_are_there_twice_what_differs_is_unknown(run: Path) -> None:
    facts = row(CASE, "facts", flops=64, min_bytes=4, peak_bytes=8)
    rows = written([facts, row(CASE, "compile", compile_s=2.0)])
    how = edited(run, rows, {**rows[0], "flops": 128}, {**rows[1], "compile_s": 3.0}, rows[1])
    *different, copy = told(run)
    assert different == [f"{CASE}, {what}: {how}" for what in ("facts", "compile")]
    assert copy == f"{CASE}, compile: there twice, counts once"
    (line,) = summarise_run(run, PRECISION)[0]
    assert (line.flops, line.min_bytes, line.peak_bytes, line.compile_s) == (None, 4, 8, None)
    assert line.facts_unknown == "two rows of its facts differ"


def test_of_a_failure_and_a_success_of_one_moment_the_failure_counts(run: Path) -> None:
    how = edited(run, ROWS, {**ROWS[0], "status": "incorrect", "reason": "off"})
    assert told(run) == [f"{CASE}, verify: {how}"]
    assert next((line.status, line.time_s) for line in summarise_run(run, PRECISION)[0]) == ("incorrect", None)


def test_a_failure_that_is_there_twice_too(run: Path) -> None:
    (failed,) = written([row(CASE, "time", 1, status="timeout", reason="slow")])
    write(run, [failed, failed])
    assert told(run) == [f"{CASE}, time: there twice, counts once"]


@pytest.mark.parametrize(
    "again",
    [
        lambda later: [later(row(CASE, "verify")), later(row(OTHER, "verify"))],
        lambda later: [later(row(CASE, "time", 3, status="killed", reason="by SIGKILL"))],
        lambda later: [later(row(CASE, "reopen", reason="after killed")), later(row(CASE, "verify"))],
        lambda later: [{**later(row(CASE, "reopen", reason="on old")), "anew": True}, *map(later, ROWS[2:5])],
    ],
    ids=["verified again", "failed again", "opened again", "timed anew"],
)
def test_what_is_written_anew_on_purpose_is_silent(run: Path, again: Callable[[Callable], list[Row]]) -> None:
    write(run, [*ROWS, *written([row(CASE, "time", 3, status="killed", reason="by SIGKILL")], since=200.0)])
    write(run, again(lambda one: {**one, "at": 1000.0 + one["round"]}))
    assert told(run) == []


def test_of_many_the_first_are_named_and_the_others_counted(run: Path) -> None:
    many = written(measured(CASE, 1.0, 8, trials=30))
    write(run, many)
    write(run, many[:-1])  # not the whole file, which would be told in one line
    said = told(run)
    assert len(said) == row_files.NAMED + 1
    assert said[-1] == "21 more rows there twice"
