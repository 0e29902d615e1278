"""A run's directory is read whole, or it is said in one line why not."""

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rows import measured

from harness.core.config import compose
from harness.core.model.errors import UsageError
from harness.core.model.file_validation import known_machine
from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult, table
from harness.core.results.row_files import NAMED, SCHEMA
from harness.core.results.stored_run import read_run_directory


def make(path: Path, config: str | None = None, machine: str | None = '{"host": "vm"}') -> Path:
    (path / "rows").mkdir(parents=True)
    rows = [json.dumps({"schema": SCHEMA, **row}) for row in measured(Case("rnn.torch", 64, 32, 1), 1e-3, 4096)]
    (path / "rows" / "host-1.jsonl").write_text("\n".join([*rows, "torn"]))
    (path / "config.yaml").write_text(compose([]).record if config is None else config)
    if machine is not None:
        (path / "machine.json").write_text(machine)
    return path


def test_lines_notices_configuration_and_machine_are_read(tmp_path: Path) -> None:
    stored = read_run_directory(make(tmp_path / "run"))
    (line,) = stored.lines
    assert (line.impl, line.peak_bytes) == ("rnn.torch", 4096)
    assert len(stored.notices) == 1
    assert "not a whole row" in stored.notices[0]
    assert stored.config["mode"] == "forward"
    assert stored.machine == {"host": "vm"}


_CONFIG = compose([]).record


@pytest.mark.parametrize(
    "config",
    [
        "",
        "[1]",
        "precision: 3",
        "precision: {target: 1}",
        "\tnot: [yaml",
        "[" * 5000,
        *(_CONFIG.replace("min_rounds: 3", f"min_rounds: {value}") for value in ("x", "null", "[]", ".nan", ".inf")),
    ],
    ids=lambda config: config[-20:],
)
def test_a_configuration_that_no_sweep_left_is_named(tmp_path: Path, config: str) -> None:
    with pytest.raises(UsageError, match="is not a sweep's configuration"):
        read_run_directory(make(tmp_path / "run", config))


def test_a_configuration_with_a_tag_says_what_to_remove(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"missing, empty or not plain YAML; remove tags such as !name$"):
        read_run_directory(make(tmp_path / "run", _CONFIG + "more: !own 3\n"))


@pytest.mark.parametrize("machine", [None, "{", "[1]", "[" * 100_000], ids=lambda machine: str(machine)[:2])
def test_a_run_whose_machine_is_lost_is_a_run_with_one_more_notice(tmp_path: Path, machine: str | None) -> None:
    stored = read_run_directory(make(tmp_path / "run", machine=machine))
    assert stored.machine == {}
    assert len(stored.lines) == 1
    assert any("machine.json" in notice for notice in stored.notices)


def test_a_run_of_several_hosts_says_so_without_their_machines(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    rows = [
        json.dumps({"schema": SCHEMA, "host": host, **row})
        for host, impl in (("n1", "rnn.torch"), ("n2", "rnn.elman"))
        for row in measured(Case(impl, 64, 32, 1), 1e-3, 4096)
    ]
    (run / "rows" / "host-1.jsonl").write_text("\n".join([*rows, ""]))
    said, warning = read_run_directory(run).notices
    assert said == "measured by n1: 1 case; n2: 1 case"
    assert warning.startswith("no file of the run describes n1, n2: ")


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    run = make(tmp_path / "run", machine=None)
    for name in ("machine.json", "rows/0001-pipe-1.jsonl"):
        os.mkfifo(run / name)
    stored = read_run_directory(run)
    assert (stored.machine, len(stored.lines)) == ({}, 1)
    assert f"{run / 'machine.json'}: cannot be read, the machine is not known" in stored.notices


def test_a_link_to_nothing_among_the_rows_is_named(tmp_path: Path) -> None:
    run = make(tmp_path / "run")
    (run / "rows" / "0001-link-1.jsonl").symlink_to("nowhere")
    stored = read_run_directory(run)
    assert len(stored.lines) == 1
    assert any("0001-link-1.jsonl: not a regular .jsonl file, left out" in notice for notice in stored.notices)


def test_a_directory_that_is_no_run_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a run"):
        read_run_directory(tmp_path)


def test_a_run_of_which_only_the_tables_were_kept_is_read_from_them(tmp_path: Path) -> None:
    whole = read_run_directory(make(tmp_path / "run"))
    table(whole.lines).to_csv(tmp_path / "run" / "summary.csv", index=False)
    shutil.rmtree(tmp_path / "run" / "rows")
    read = read_run_directory(tmp_path / "run")
    assert read.lines == whole.lines
    assert read.notices == [f"{tmp_path / 'run'} has no rows/: rebuilt from summary.csv, which holds one line per case"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda whole: whole[:-7], "is not whole: it ends within a line"),
        (lambda whole: b"\xff\xfe\x00", "is not a run's summary"),
        (lambda whole: b"", "is not a run's summary"),
        (lambda whole: whole.replace(b",ok,", b",fine,"), r"summary\.csv:2: status='fine' is not one of"),
    ],
)
def test_a_table_that_was_half_written_is_told(tmp_path: Path, damage: Callable[[bytes], bytes], message: str) -> None:
    whole = read_run_directory(make(tmp_path / "run"))
    table(whole.lines).to_csv(tmp_path / "run" / "summary.csv", index=False)
    shutil.rmtree(tmp_path / "run" / "rows")
    file = tmp_path / "run" / "summary.csv"
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(UsageError, match=message):
        read_run_directory(tmp_path / "run")


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"flops": 3, "flops_full": 2}, "its flops is more than its flops_full"),
        ({"flops": 10**9 + 1, "flops_full": 10**9}, "its flops is more than its flops_full"),
        ({"time_in_law_s": 9.0, "time_in_law_hi_s": 8.0}, "its time_in_law_s is more than its time_in_law_hi_s"),
        ({"bimodal_fast_s": 9.0, "bimodal_slow_s": 8.0}, "its bimodal_fast_s is more than its bimodal_slow_s"),
        ({"block_sizes": "3"}, "its facts are not of their types"),
        ({"own_axes": "{bad"}, "its facts are not of their types"),
        ({"claims": "[1"}, "its facts are not of their types"),
        ({"mode": "sideways"}, "mode=sideways is no value of mode"),
        ({"seq_len": 10**12}, "seq_len=1000000000000 is no value of seq_len"),
        ({"trials": 0}, "its time is of no trials"),
    ],
)
def test_a_line_of_a_kept_table_that_cannot_be_is_named(tmp_path: Path, edit: dict[str, Any], message: str) -> None:
    (line,) = read_run_directory(make(tmp_path / "run")).lines
    shutil.rmtree(tmp_path / "run" / "rows")
    table([replace(line, **edit)]).to_csv(tmp_path / "run" / "summary.csv", index=False)
    with pytest.raises(UsageError, match=rf"summary.csv:2: {re.escape(message)}, left out$"):
        read_run_directory(tmp_path / "run")


def published(run: Path, *edits: dict[str, Any]) -> tuple[list[CaseResult], list[str]]:
    """The lines and the notices of a kept table, in which each line has these edits of the same line."""
    (line,) = read_run_directory(make(run)).lines
    shutil.rmtree(run / "rows")
    table([replace(line, **edit) for edit in edits]).to_csv(run / "summary.csv", index=False)
    stored = read_run_directory(run)
    return stored.lines, [notice.removeprefix(str(run)) for notice in stored.notices]


@pytest.mark.parametrize(
    ("edit", "why"),
    [
        ({"flops": 3, "flops_full": 2}, "its flops is more than its flops_full"),
        ({"own_axes": "{bad"}, "its facts are not of their types"),
        ({"seq_len": 10**12}, "seq_len=1000000000000 is no value of seq_len"),
        ({"trials": 0}, "its time is of no trials"),
        ({"status": "fine"}, "status='fine' is not one of ok, oom, timeout, killed, unsupported, incorrect, error"),
        ({"depth": -1}, "depth=-1.0 is not a whole number from 0 on"),
        ({"time_lo_s": 9.0, "time_hi_s": 10.0}, "time_s=0.001 is not within 9.0 to 10.0"),
        ({"num_heads": 5}, "d_model=32 is not divisible by num_heads=5"),
        ({"num_heads": 8, "num_kv_heads": 3}, "num_heads=8 is not divisible by num_kv_heads=3"),
    ],
    ids=str,
)
def test_a_bad_line_of_a_kept_table_is_named_and_costs_no_other(tmp_path: Path, edit: dict[str, Any], why: str) -> None:
    lines, (_, notice) = published(tmp_path / "run", {"seq_len": 8}, edit, {"seq_len": 16})
    assert [line.seq_len for line in lines] == [8, 16]
    assert notice.startswith(f"/summary.csv:3: {why}")
    assert notice.endswith(", left out")


def test_of_several_lines_of_one_case_of_a_kept_table_none_remains(tmp_path: Path) -> None:
    twice = {"seq_len": 8}, {"seq_len": 8, "time_s": 2e-3, "time_hi_s": 3e-3}
    lines, (_, notice) = published(tmp_path / "run", *twice, {"seq_len": 16})
    assert [line.seq_len for line in lines] == [16]
    why = "several rows are of rnn.torch n=8 d=32 h=1: keep one of them, chosen by the other columns"
    assert notice == f"/summary.csv:3: {why}, left out"


def test_many_bad_lines_of_a_kept_table_are_counted(tmp_path: Path) -> None:
    edits = [{"seq_len": n, "trials": 0} for n in range(1, NAMED + 6)]
    lines, notices = published(tmp_path / "run", *edits, {})
    assert [line.seq_len for line in lines] == [64]
    assert len(notices) == NAMED + 2
    assert notices[-1] == "left out beside these: 5 × its time is of no trials"


def test_a_failure_that_no_layer_can_do_stays_in_a_kept_table(tmp_path: Path) -> None:
    lines, notices = published(tmp_path / "run", {}, {"num_heads": 5, "status": "unsupported", "reason": "it is odd"})
    assert [line.status for line in lines] == ["ok", "unsupported"]
    assert len(notices) == 1


@pytest.mark.parametrize(
    ("edit", "tokens_per_s", "flops_per_byte"),
    [
        ({"tokens_per_s": None}, 64 / 0.001, None),
        ({"tokens_per_s": 1.0}, 64 / 0.001, None),
        ({"mask": "padding", "tokens_per_s": 1.0}, None, None),
        ({"mask": "padding", "real_tokens": 32}, 32 / 0.001, None),
        ({"flops": 6, "min_bytes": 3, "flops_per_byte": 9.0}, 64 / 0.001, 2.0),
        ({"flops_per_byte": 9.0}, 64 / 0.001, None),
    ],
    ids=str,
)
def test_rates_of_a_kept_table_follow_from_its_other_cells(
    tmp_path: Path, edit: dict[str, Any], tokens_per_s: float, flops_per_byte: float
) -> None:
    ((line,), _) = published(tmp_path / "run", edit)
    assert (line.tokens_per_s, line.flops_per_byte) == (tokens_per_s, flops_per_byte)


def test_a_failure_without_a_reason_says_so(tmp_path: Path) -> None:
    ((line,), _) = published(tmp_path / "run", {"status": "error", "reason": None})
    assert line.reason == "no reason was recorded"


PUBLISHED = sorted((Path(__file__).resolve().parents[3] / "results" / "published").rglob("machine.json"))


@pytest.mark.parametrize("file", PUBLISHED, ids=lambda file: f"{file.parent.parent.name}/{file.parent.name}")
def test_the_machines_of_published_runs_are_read_whole(file: Path) -> None:
    written = json.loads(file.read_text())
    machine, damages = known_machine(written)
    assert damages == []
    for name in ("version", "cuda", "cudnn", "gpu"):
        assert machine["torch"].get(name) == written["torch"].get(name)


def test_a_bad_entry_of_a_machine_costs_no_entry_beside_it() -> None:
    machine, damages = known_machine({"host": "here", "torch": {"version": "2.11", "gpu": ["H200"], "cudnn": 91900}})
    assert machine == {"host": "here", "torch": {"version": "2.11", "cudnn": 91900}}
    assert len(damages) == 1
    assert "gpu" in damages[0]
