"""`baseline`: a run becomes a file that can be committed."""

import json
from pathlib import Path

import pytest
from rows import measured

from harness.cli.commands import main
from harness.core.config import compose
from harness.core.model.sweep_axes import Case
from harness.core.results.row_files import SCHEMA

CASES = [Case("rnn.torch", n, 32, 1) for n in (64, 128, 256)]


def run_of(path: Path, rows: list[dict]) -> Path:
    (path / "rows").mkdir(parents=True)
    (path / "rows" / "host-1.jsonl").write_text("".join(json.dumps({"schema": SCHEMA, **one}) + "\n" for one in rows))
    (path / "config.yaml").write_text(compose(["seed=7"]).record)
    (path / "machine.json").write_text('{"torch": {"version": "2.13.0"}}')
    return path


def usual(path: Path, slower: float = 1.0, turned: bool = False) -> Path:
    each = [measured(case, 1e-6 * case.seq_len * slower, 128 * case.seq_len) for case in CASES]
    return run_of(path, [one for rows in (reversed(each) if turned else each) for one in rows])


def test_a_run_is_written(tmp_path: Path) -> None:
    run, out = usual(tmp_path / "run"), tmp_path / "b.json"
    assert main(["baseline", str(run), "-o", str(out)]) == 0
    held = json.loads(out.read_text())
    assert (held["schema"], held["seed"], held["torch"]) == (1, 7, "2.13.0")
    assert [one["peak_bytes"] for one in held["cases"].values()] == [128 * 64, 128 * 128, 128 * 256]


def test_what_is_written_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = run_of(tmp_path / "run", measured(CASES[0], 1e-3, 128))
    assert main(["baseline", str(run), "-o", str(tmp_path / "b.json")]) == 0
    assert "b.json: 1 case, 2 laws, 5 claims\n" in capsys.readouterr().out


def test_without_a_file_it_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = usual(tmp_path / "run")
    assert main(["baseline", str(run)]) == 0
    printed = capsys.readouterr().out
    assert main(["baseline", str(run), "-o", str(tmp_path / "b.json")]) == 0
    assert (tmp_path / "b.json").read_text() == printed


def test_two_runs_of_the_same_code_differ_in_their_times_alone(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    texts = []
    for name, slower in (("a", 1.0), ("b", 1.4)):
        assert main(["baseline", str(usual(tmp_path / name, slower, turned=name == "b"))]) == 0
        texts.append(capsys.readouterr().out)
    heads = [text.partition(' "timed": {')[0] for text in texts]
    assert heads[0] == heads[1]
    assert texts[0] != texts[1]
