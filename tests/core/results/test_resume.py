"""What a run's rows say has been done."""

from pathlib import Path

import pytest
from rows import PRECISION, measured, row

from harness.core.model.sweep_axes import Case
from harness.core.results import row_files, run_directory
from harness.core.results.summarise import summarise_run
from harness.core.run.scheduler import read_resume_state

CASE, OTHER = Case("attention.fused", 64, 32, 2), Case("attention.fused", 128, 32, 2)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run_directory.create(tmp_path / "run", "precision: {}\n", {})
    return tmp_path / "run"


def write(run: Path, *rows: dict) -> None:
    writer = row_files.RowWriter(run)
    for one in rows:
        writer.write(one)
    writer.close()


def test_trials_are_what_they_were(run: Path) -> None:
    write(run, *measured(CASE, 1.0, 8))
    past, notices = read_resume_state(run)
    assert [(t.value_s, t.median_s, t.wall_s, t.probe_s) for t in past.trials[CASE]] == [
        (1.0 * (1 + 0.001 * i), (1.0 * (1 + 0.001 * i) + 1.5) / 2, 0.1, 1e-4) for i in range(3)
    ]
    assert (past.facts, past.failures, notices) == (frozenset([CASE]), {}, [])


def test_failures_and_compilations_are_known_by_case(run: Path) -> None:
    write(run, row(CASE, "time", 1, status="timeout", reason="slow"), row(OTHER, "compile", compile_s=3.5))
    past, _ = read_resume_state(run)
    assert past.failures == {CASE: ("timeout", "slow")}
    assert past.compiles_s == {OTHER: 3.5}


def test_what_was_opened_again_has_not_failed_until_it_fails_again(run: Path) -> None:
    write(run, row(CASE, "time", 1, status="timeout", reason="slow"))
    write(run, row(CASE, "reopen", reason="after timeout: slow"))
    assert read_resume_state(run)[0].failures == {}
    write(run, row(CASE, "time", 1, status="oom", reason="no"))
    assert read_resume_state(run)[0].failures == {CASE: ("oom", "no")}


def test_reopening_takes_the_statuses_that_it_is_told(run: Path) -> None:
    write(run, row(CASE, "time", 1, status="timeout", reason="slow"), row(OTHER, "time", 1, status="oom", reason="no"))
    past = read_resume_state(run)[0].reopening(["timeout", "error"])
    assert (past.failures, past.reopened) == ({OTHER: ("oom", "no")}, {CASE: ("timeout", "slow")})


def test_a_copied_file_counts_once_and_is_told(run: Path) -> None:
    write(run, *measured(CASE, 1.0, 8))
    (file,) = (run / "rows").iterdir()
    (run / "rows" / f"copy-of-{file.name}").write_bytes(file.read_bytes())
    (line,), notices = summarise_run(run, PRECISION)
    assert line.trials == 3
    assert notices == [f"{run}/rows/copy-of-{file.name}: a copy of {file.name}, left out"]
    assert len(read_resume_state(run)[0].trials[CASE]) == 3


def test_what_another_machine_has_timed_is_timed_anew_and_counts_no_more(run: Path) -> None:
    def on(host: str, *rows: dict) -> list[dict]:
        return [{**one, "host": host} for one in rows]

    write(run, *on("old", *measured(CASE, 1.0, 8)), *on("new", *measured(OTHER, 1.0, 8)))
    past = read_resume_state(run)[0].without_times_of(["old"], "begun on old")
    assert (past.anew, set(past.trials), past.facts) == ({CASE: "begun on old"}, {OTHER}, {CASE, OTHER})
    write(run, {**row(CASE, "reopen", reason="begun on old"), "anew": True}, *on("new", *measured(CASE, 3.0, 8, 2)[2:]))
    again, _ = read_resume_state(run)
    assert [round(trial.value_s, 2) for trial in again.trials[CASE]] == [3.0, 3.0]
    (line, other), notices = summarise_run(run, PRECISION)
    assert (line.trials, line.host, other.host, notices) == (2, "new", "new", [])


def test_the_highest_round_is_known_of_rows_that_do_not_count_too(run: Path) -> None:
    timed = measured(CASE, 1.0, 8)
    write(run, *timed, row(OTHER, "time", 9, status="timeout", reason="slow"), row(OTHER, "time", 2**70, status="oom"))
    write(run, row(CASE, "reopen", anew=True, reason="on another machine"))
    past = read_resume_state(run)[0]
    assert past.trials == {}
    assert past.rounds == {CASE: timed[-1]["round"], OTHER: 9}


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), 2**63])
def test_facts_that_fit_into_no_table_are_left_out(run: Path, number: float) -> None:
    write(run, row(CASE, "verify"), row(CASE, "facts", flops=number))
    past, notices = read_resume_state(run)
    assert past.facts == frozenset()
    assert len(notices) == 1
