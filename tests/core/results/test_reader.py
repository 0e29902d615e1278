"""Every whole row is read exactly once. Other lines are reported, and no row is lost with them."""

import json
import os
from pathlib import Path

import pytest
from core.results.reading import BARE, new_run, read, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.core.results import row_files


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return new_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("damage", "notice"),
    [
        (b'{"schema": 1, "a', "not a whole row"),
        (b"\x00\xff\xfe garbage \x80\n", "not a whole row"),
        (b"[" * 100_000 + b"\n", "not a whole row"),
        (b'{"schema": 1}\n', "not a row of schema 2"),
        (b'{"schema": 999}\n', "a row of a newer schema than 2, to be read by a newer harness"),
        (b"[1, 2]\n", "not a row of schema 2"),
        (b"null\n", "not a row of schema 2"),
        (b"\n", "not a whole row"),
        (b'{"schema": 2, "bad": 1}\n', "a bad row"),
    ],
)
def test_a_damaged_line_is_named_and_loses_no_other(run: Path, damage: bytes, notice: str) -> None:
    path = write(run, {"a": 1}, {"a": 2})
    whole = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(whole[0] + damage + (b"" if damage.endswith(b"\n") else b"\n") + whole[1])
    rows, notices = read(run)
    assert [row["a"] for row in rows] == [1, 2]
    assert notices == [f"{path}:2: {notice}, left out"]


def test_a_last_line_that_nobody_ended_is_read_if_it_is_whole(run: Path) -> None:
    path = write(run, {"a": 1}, {"a": 2})
    path.write_bytes(path.read_bytes()[:-1])
    assert [row["a"] for row in read(run)[0]] == [1, 2]


def test_files_of_several_writers_are_read_together(run: Path) -> None:
    write(run, {"a": 1})
    other = {"schema": row_files.SCHEMA, **BARE, "a": 2}
    (run / "rows" / "another-1.jsonl").write_text(json.dumps(other) + "\n")
    assert sorted(row["a"] for row in read(run)[0]) == [1, 2]


def test_a_file_that_cannot_be_read_is_named_and_loses_no_other(run: Path) -> None:
    write(run, {"a": 1})
    (run / "rows" / "0000-directory.jsonl").mkdir()
    os.mkfifo(run / "rows" / "0000-pipe.jsonl")
    (run / "rows" / "0000-zero.jsonl").symlink_to("/dev/zero")
    (run / "rows" / "0000-absent.jsonl").symlink_to("absent")
    (run / "rows" / "0000-packed.jsonl.gz").write_bytes(b"packed")
    (run / "rows" / ".nfs0001").write_bytes(b"of a file system")
    rows, notices = read(run)
    assert ([row["a"] for row in rows], notices) == ([1], [])
    names = ("absent.jsonl", "directory.jsonl", "packed.jsonl.gz", "pipe.jsonl", "zero.jsonl")
    assert row_files.row_paths(run)[1] == [
        f"{run}/rows/0000-{name}: not a regular .jsonl file, left out" for name in names
    ]


def test_a_line_without_an_end_is_left_out_and_loses_no_other(run: Path) -> None:
    path = write(run, {"a": 1}, {"a": 2})
    first, second = path.read_bytes().splitlines(keepends=True)
    with path.open("wb") as file:
        file.write(first)
        file.truncate(3 * 2**24)  # a sparse file: it uses no space on the disk and reads as zeros
        file.seek(0, os.SEEK_END)
        file.write(b"\n" + second)
    rows, notices = read(run)
    assert [row["a"] for row in rows] == [1, 2]
    assert notices == [f"{path}:{part}: not a whole row, left out" for part in (2, 3, 4)]  # in parts of 16 MiB


def test_a_flood_of_garbage_is_told_in_a_few_lines(run: Path) -> None:
    path = write(run, {"a": 1})
    with path.open("ab") as file:
        file.write(b"garbage\n" * 1000 + b'{"schema": 1}\n' * 2000)
    rows, notices = read(run)
    assert len(rows) == 1
    assert len(notices) == 11
    assert notices[0] == f"{path}:2: not a whole row, left out"
    assert notices[-1] == "left out beside these: 990 × not a whole row, 2,000 × not a row of schema 2"


def test_lines_are_named_as_the_run_was(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run / "rows" / "0001-a-1.jsonl").write_bytes(b"garbage\n")
    monkeypatch.chdir(run.parent)
    assert read(Path("run"))[1] == ["run/rows/0001-a-1.jsonl:1: not a whole row, left out"]


def test_a_file_that_was_copied_is_read_once_and_told_in_one_line(run: Path) -> None:
    first, second = write(run, {"a": 1}, {"a": 2}), write(run, {"a": 3})
    later, unnumbered = run / "rows" / "0007-b-1.jsonl", run / "rows" / f"copy of {second.name}"
    later.write_bytes(first.read_bytes())
    unnumbered.write_bytes(second.read_bytes())
    assert [row["a"] for row in read(run)[0]] == [1, 2, 3]
    assert sorted(row_files.row_paths(run)[1]) == [
        f"{later}: a copy of {first.name}, left out",
        f"{unnumbered}: a copy of {second.name}, left out",
    ]


def test_files_that_are_as_long_are_no_copies(run: Path) -> None:
    write(run, {"a": 1})
    write(run, {"a": 2})
    for name in "xy":
        (run / "rows" / f"{name}.jsonl").touch()
    assert [row["a"] for row in read(run)[0]] == [1, 2]
    assert row_files.row_paths(run)[1] == []


LINES = [b'{"schema": 2, "a": 1}\n', b'{"schema": 2, "a": 22222222222222222222}\n', b"garbage\n", b"\n"]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.sampled_from(LINES), max_size=12), max_size=4))
def test_every_line_is_read_once(tmp_path_factory: pytest.TempPathFactory, files: list[list[bytes]]) -> None:
    run = new_run(tmp_path_factory.mktemp("files") / "run")
    for number, lines in enumerate(files):
        (run / "rows" / f"{number}.jsonl").write_bytes(b"".join(lines))
    different = {b"".join(lines): lines for lines in files}.values()  # files of the same content are copies
    assert len(read(run)[0]) == sum(line in LINES[:2] for lines in different for line in lines)
