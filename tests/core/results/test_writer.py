"""Rows survive whatever happens to their writer."""

import platform
import shutil
from pathlib import Path

import pytest
from core.results.reading import BARE, new_run, read, write

from harness.core.model.errors import UsageError
from harness.core.results import row_files


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    write(run, {"a": 1}, {"b": "é"})
    rows, notices = read(run)
    assert [row.get("a", row.get("b")) for row in rows] == [1, "é"]
    assert notices == []


def test_a_row_is_on_disk_before_the_next_thing_happens(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = row_files.RowWriter(run)
    writer.write({**BARE, "a": 1})
    rows, _ = read(run)
    writer.close()
    assert rows == [{"schema": row_files.SCHEMA, "host": platform.node(), **BARE, "a": 1}]


def test_a_text_that_is_no_unicode_ends_no_sweep(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    write(run, {"reason": b"no file caf\xe9".decode("utf-8", "surrogateescape")})
    assert [row["reason"] for row in read(run)[0]] == ["no file caf?"]


def test_writers_are_numbered_as_they_follow_each_other_and_read_in_that_order(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    for number in range(1, 12):
        assert write(run, {"a": number}).name.startswith(f"{number:04d}-")
    assert [row["a"] for row in read(run)[0]] == list(range(1, 12))


def test_one_that_writes_nothing_leaves_nothing(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    write(run)
    assert list((run / "rows").iterdir()) == []


def test_a_run_that_is_removed_before_its_first_row_is_not_made_again(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    writer = row_files.RowWriter(run)
    shutil.rmtree(run)
    with pytest.raises(UsageError, match="was removed or renamed before its first row was written"):
        writer.write(BARE)
    assert not run.exists()
