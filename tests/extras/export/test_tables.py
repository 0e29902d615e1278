"""The summary as CSV, as Parquet, and for github-action-benchmark."""

import io
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from extras.export.exports import WHOLE_RUN, exported, strict
from test_csv_cells import cells_that_run, hostile_lines

from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import DEFAULTS, Case
from harness.core.results.columns import COLUMNS, lines_of_table
from harness.core.results.stored_run import StoredRun, read_run_directory
from harness.extras.export.formats import FORMATS, export, overrides


def test_csv_is_the_summary_and_can_be_read_back(run: Path) -> None:
    read = pd.read_csv(io.BytesIO(exported(run, "csv").content))
    assert tuple(read.columns) == tuple(COLUMNS)
    assert [line.impl for line in lines_of_table(read)] == [line.impl for line in read_run_directory(run).lines]
    assert set(read.reason.dropna()) == {"out | of\nmemory"}


def test_a_csv_holds_no_formula(tmp_path: Path) -> None:
    text = export(StoredRun(tmp_path, hostile_lines(), [], {}, {}), "csv").content.decode()
    assert "HYPERLINK" in text
    assert not cells_that_run(text)


def test_parquet_keeps_types_and_units(run: Path) -> None:
    stored = read_run_directory(run)
    lines = [replace(stored.lines[0], flops=2**60 + 1), replace(stored.lines[1], flops=None)]
    table = pq.read_table(io.BytesIO(export(replace(stored, lines=lines), "parquet").content))
    assert table.column("flops").to_pylist() == [2**60 + 1, None]
    types = {name: str(table.schema.field(name).type) for name in ("impl", "seq_len", "time_s", "host_bound")}
    assert types == {"impl": "string", "seq_len": "int64", "time_s": "double", "host_bound": "bool"}
    units = {field.name: (field.metadata or {}).get(b"unit", b"").decode() for field in table.schema}
    said = {name: units[name] for name in ("time_s", "peak_bytes", "flops_per_byte", "sm_clock_mhz", "depth", "impl")}
    assert said == {
        "time_s": "s",
        "peak_bytes": "B",
        "flops_per_byte": "FLOP/B",
        "sm_clock_mhz": "MHz",
        "depth": "1",
        "impl": "",
    }
    assert b"attn-harness" in table.schema.metadata[b"generator"]


def test_parquet_has_own_axes_that_vary_as_the_summary_has(run: Path) -> None:
    stored = read_run_directory(run)
    axes = '{"window": ["w", 4]}'
    first, second = stored.lines[:2]
    lines = [replace(first, own_axes=axes), replace(second, own_axes=axes, options="window=8")]
    table = pq.read_table(io.BytesIO(export(replace(stored, lines=lines), "parquet").content))
    assert table.column("window").to_pylist() == [4, 8]
    assert str(table.schema.field("window").type) == "int64"
    assert b"attn-harness" in table.schema.metadata[b"generator"]


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_a_count_beyond_64_bits_is_one_line(run: Path, name: str) -> None:
    stored = read_run_directory(run)
    with pytest.raises(UsageError, match="64"):
        export(replace(stored, lines=[replace(stored.lines[0], flops=2**70)]), name)


def test_github_action_benchmark_gets_time_and_memory_by_names_that_stay(run: Path) -> None:
    entries = strict(exported(run, "github-action-benchmark").content)
    assert len({one["name"] for one in entries}) == len(entries) == 16
    by_name = {one["name"]: one for one in entries}
    time = by_name["attention.fused seq_len=512 d_model=64 num_heads=2: time"]
    memory = by_name["attention.fused seq_len=512 d_model=64 num_heads=2: peak memory"]
    assert (time["unit"], memory["unit"], memory["value"]) == ("ms", "bytes", 8 * 512**2)
    low, high = map(float, time["range"].split(" to "))
    assert low <= time["value"] <= high
    assert "trials: 3" in time["extra"]
    assert all(isinstance(one[key], str) for one in entries for key in one if key != "value")


def test_a_time_that_cannot_be_is_told_to_be_suspect_in_every_format(run: Path) -> None:
    stored = read_run_directory(run)
    line = replace(stored.lines[0], threads_after=1.0)
    texts = [export(replace(stored, lines=[line]), name).content.decode("latin-1") for name in WHOLE_RUN]
    assert all("run on after a call has returned" in text for text in texts)


def test_a_name_breaks_out_of_no_table(run: Path) -> None:
    stored = read_run_directory(run)
    odd = replace(stored.lines[0], impl="a|b`c\\d\n@e")
    names = [one["name"] for one in strict(export(replace(stored, lines=[odd]), "github-action-benchmark").content)]
    assert names[0].startswith("a¦b'c/d/n@e seq_len=")


def test_axes_at_their_defaults_are_in_no_name(run: Path) -> None:
    line = read_run_directory(run).lines[0]
    assert overrides(line) == f"seq_len={line.seq_len} d_model=64 num_heads=2"
    changed = replace(line, mode="train", threads=2)
    assert overrides(changed, without=("num_heads",)) == f"seq_len={line.seq_len} d_model=64 mode=train threads=2"
    assert set(DEFAULTS) < set(Case.__dataclass_fields__)


def test_what_failed_is_in_the_tables_and_counted_elsewhere(run: Path) -> None:
    assert [exported(run, name).cases for name in WHOLE_RUN] == [8, 9, 9, 8]
    assert list(exported(run, "github-action-benchmark").notices) == ["1 case without a result left out"]


@pytest.mark.parametrize("name", FORMATS)
def test_a_run_without_rows_has_nothing_to_export(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no rows to export"):
        export(StoredRun(tmp_path, [], [], {}, {}), name)


def test_a_run_of_failures_alone_is_no_benchmark(run: Path) -> None:
    stored = read_run_directory(run)
    failed = replace(stored, lines=[line for line in stored.lines if line.status != "ok"])
    with pytest.raises(UsageError, match="neither times nor memory"):
        export(failed, "github-action-benchmark")
