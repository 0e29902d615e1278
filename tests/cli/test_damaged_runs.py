"""Commands that read a run, on a damaged one: each does what it can, or refuses in one line."""

import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attention_run import make_run

from harness.cli.commands import main

READERS = [
    ["report", "--no-plots"],
    ["status"],
    ["predict", "seq_len=1024"],
    ["recommend", "seq_len=1024"],
    ["baseline", "-o", "baseline.json"],
]


def _rows(run: Path) -> Path:
    (path,) = (run / "rows").iterdir()
    return path


def not_finite(run: Path) -> None:
    """Behind every row the same with NaN, infinities or numbers beyond all measures."""
    lines = _rows(run).read_text().splitlines()
    for number, value in enumerate((math.nan, math.inf, -math.inf, -1, 1e300, 2**63, 10**30)):
        for line in lines[number::2]:
            row: dict[str, Any] = json.loads(line)
            spoilt = {name: value for name, cell in row.items() if isinstance(cell, int | float) and name != "schema"}
            lines.append(json.dumps({**row, **spoilt, "flops": value, "depth": value}))
    _rows(run).write_text("\n".join(lines) + "\n")


def torn_and_strange(run: Path) -> None:
    """Garbage before the rows, every other row cut after 60 characters, and a directory among the files."""
    lines = _rows(run).read_bytes().splitlines()
    kept = [line[: 60 if number % 2 else None] for number, line in enumerate(lines)]
    _rows(run).write_bytes(b"\n".join([b"[" * 60_000, bytes(4096), b"\xff", *kept]))
    (run / "rows" / "0000-directory-1.jsonl").mkdir()
    (run / "rows" / "0000-link-1.jsonl").symlink_to("nowhere")
    os.mkfifo(run / "rows" / "0000-pipe-1.jsonl")
    (run / "machine.json").unlink()
    os.mkfifo(run / "machine.json")


def without_rows(run: Path) -> None:
    _rows(run).write_bytes(b"")


DAMAGES = [not_finite, torn_and_strange, without_rows]


@pytest.mark.parametrize("damage", DAMAGES)
def test_every_reader_of_a_damaged_run_succeeds_or_refuses_in_a_line(
    damage: Callable[[Path], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    run = make_run(tmp_path / "run")
    read_damaged(run, damage, READERS, capsys)


def read_damaged(
    run: Path, damage: Callable[[Path], None], readers: list[list[str]], capsys: pytest.CaptureFixture
) -> None:
    """Damage the run. Each of the readers must succeed or refuse in a line; without rows alone it may refuse."""
    damage(run)
    for name, *options in readers:
        ended = main([name, str(run), *options])
        said = capsys.readouterr().err
        if damage is not without_rows:
            assert (ended, name) == (0, name), said
        elif ended != 0:
            assert (ended, said.count("\n"), said[:9]) == (2, 1, "harness: ")
