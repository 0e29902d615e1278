"""If the run's directory is removed, renamed or replaced, the sweep stops at the next row with one line."""

import shutil
from pathlib import Path

import pytest
from core.faults.driver import GRID, Driver, becomes_true, lines_of, nothing_remains

# More rounds than the sweep can finish.
SWEEP = [*(given for given in GRID if "_rounds=" not in given), "precision.min_rounds=200", "precision.max_rounds=200"]


def rename(run: Path) -> None:
    run.rename(run.with_name("elsewhere"))


def replace(run: Path) -> None:
    rename(run)
    (run / "rows").mkdir(parents=True)


@pytest.mark.parametrize("move", [rename, replace, shutil.rmtree])
def test_the_sweep_stops_and_says_where_its_rows_are(move, tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    with Driver(tmp_path, *SWEEP, mark=str(tmp_path)) as driver:
        assert becomes_true(lambda: len(lines_of(run)) > 9)
        move(run)
        assert driver.ended() == 2
        if move is shutil.rmtree:
            assert driver.err == "harness: out=run was removed during the sweep: its rows are gone\n"
        else:
            assert driver.err == (
                f"harness: out=run was renamed during the sweep: its rows are in {elsewhere}/rows; "
                f"run the same command with 'out={elsewhere}' to continue\n"
            )
            assert all(line.endswith("}") for line in lines_of(elsewhere))
            assert not list(elsewhere.glob("*.md"))
    # No file is created in the old place.
    assert [path for path in run.rglob("*") if path.is_file()] == []
    assert run.exists() == (move is replace)
    assert nothing_remains(str(tmp_path))


def test_a_sweep_whose_rows_alone_are_moved_says_to_move_them_back(tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    with Driver(tmp_path, *SWEEP, mark=str(tmp_path)) as driver:
        assert becomes_true(lambda: len(lines_of(run)) > 9)
        (run / "rows").rename(elsewhere)
        assert driver.ended() == 2
        assert driver.err == (
            f"harness: out=run: its rows were moved to {elsewhere} during the sweep: move them back, "
            "and run the same command to continue\n"
        )
    elsewhere.rename(run / "rows")
    assert all(line.endswith("}") for line in lines_of(run))
    assert nothing_remains(str(tmp_path))
