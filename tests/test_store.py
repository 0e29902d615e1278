"""Rows survive whatever becomes of their writer."""

import json
import os
from pathlib import Path

import pytest

from harness import store
from harness.case import Case
from harness.errors import UsageError


@pytest.fixture
def run(tmp_path: Path) -> Path:
    store.create(tmp_path / "run", "precision: {}\n", {"host": "here"})
    return tmp_path / "run"


BARE = {
    "case": Case("rnn.elman", 8, 4, 1).as_dict(),
    "family": "rnn",
    "purpose": "facts",
    "round": 0,
    "status": "ok",
    "reason": None,
}


def write(run: Path, *rows: dict) -> Path:
    writer = store.RowWriter(run)
    for row in rows:
        writer.write({**BARE, **row})
    writer.close()
    return writer.path


def test_what_was_written_is_read_back(run: Path) -> None:
    write(run, {"a": 1}, {"b": "é"})
    rows, notices = store.read_rows(run)
    assert [row.get("a", row.get("b")) for row in rows] == [1, "é"]
    assert notices == []


def test_a_row_is_on_disk_before_the_next_thing_happens(run: Path) -> None:
    writer = store.RowWriter(run)
    writer.write({**BARE, "a": 1})
    assert store.read_rows(run)[0] == [{"schema": store.SCHEMA, **BARE, "a": 1}]
    writer.close()


def timed(**fields) -> bytes:
    row = {
        "schema": store.SCHEMA,
        **BARE,
        "purpose": "time",
        "wall_s": 1.0,
        "pulse_s": None,
        "samples_s": [1.0],
        **fields,
    }
    return json.dumps(row).encode() + b"\n"


def test_a_timed_row_is_read_with_its_samples(run: Path) -> None:
    (run / "rows" / "a.jsonl").write_bytes(timed())
    assert [row["samples_s"] for row in store.read_rows(run)[0]] == [[1.0]]


def test_of_two_sweeps_that_start_together_one_is_refused(run: Path) -> None:
    with pytest.raises(UsageError, match="another sweep has just started there"):
        store.create(run, "", {})


@pytest.mark.parametrize(
    ("damage", "notice"),
    [
        (b'{"schema": 1, "a', "not a whole row"),
        (b"\x00\xff\xfe garbage \x80\n", "not a whole row"),
        (b'{"schema": 999}\n', "not a row of schema 2"),
        (b"[1, 2]\n", "not a row of schema 2"),
        (b"\n", "not a whole row"),
        (b'{"schema": 2}\n', "a row without what every row must hold"),
        (timed(samples_s=[]), "a row without"),
        (timed(samples_s=[float("nan")]), "a row without"),
        (timed(samples_s=[-1.0]), "a row without"),
        (timed(case={"impl": "x"}), "a row without"),
    ],
)
def test_a_damaged_line_is_named_and_loses_no_other(run: Path, damage: bytes, notice: str) -> None:
    path = write(run, {"a": 1}, {"a": 2})
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(whole[0] + damage + (b"" if damage.endswith(b"\n") else b"\n") + whole[1])
    rows, notices = store.read_rows(run)
    assert [row["a"] for row in rows] == [1, 2]
    assert len(notices) == 1
    assert f"{path.name}:2: {notice}" in notices[0]


def test_files_of_several_writers_are_read_together(run: Path) -> None:
    write(run, {"a": 1})
    other = {"schema": store.SCHEMA, **BARE, "a": 2}
    (run / "rows" / "another-1.jsonl").write_text(json.dumps(other) + "\n")
    assert sorted(row["a"] for row in store.read_rows(run)[0]) == [1, 2]


def test_an_out_that_cannot_be_a_new_run_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    for out, message in (("file", "is a file"), ("file/below", "is a file"), ("full", "is not empty")):
        with pytest.raises(UsageError, match=message):
            store.check_new(tmp_path / out)
    with pytest.raises(UsageError, match=r"(?i)name too long"):
        store.check_new(tmp_path / ("a" * 300))
    store.check_new(tmp_path / "new" / "deep")
    assert sorted(tmp_path.rglob("*")) == before


def test_latest_points_to_the_newest_run_and_never_replaces_a_directory(tmp_path: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        store.link_latest(tmp_path / name)
    assert os.readlink(tmp_path / "latest") == "second"
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").mkdir()
    store.link_latest(tmp_path / "first")
    assert not (tmp_path / "latest").is_symlink()


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run"):
        store.check_run(tmp_path)
