"""A run becomes a file that pytest-benchmark reads as its own."""

import csv
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from attention_run import MACHINE, SIZES, make_run
from extras.export.exports import exported, strict

from harness.core.model.errors import UsageError
from harness.core.results.stored_run import read_run_directory
from harness.extras.export.formats import export


def compare(directory: Path, *more: str) -> subprocess.CompletedProcess:
    program = "import sys; from pytest_benchmark.cli import main; sys.argv[0] = 'pytest-benchmark'; main()"
    command = [sys.executable, "-c", program, "--storage", f"file://{directory}", "compare", *more]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=True)


def test_pytest_benchmark_compares_two_exports(run: Path, tmp_path: Path) -> None:
    slower = make_run(tmp_path / "slower", slower=2.0)
    (tmp_path / "0001_before.json").write_bytes(exported(run, "pytest-benchmark").content)
    (tmp_path / "0002_after.json").write_bytes(exported(slower, "pytest-benchmark").content)
    done = compare(tmp_path, "--csv=compared.csv", "--columns=min,median,rounds")
    assert "attention.fused[seq_len=64 d_model=64 num_heads=2] (0001_before)" in done.stdout
    assert done.stdout.count("benchmark 'seq_len=64 d_model=64': 4 tests") == 1
    with (tmp_path / "compared.csv").open() as file:
        rows = [one for one in csv.DictReader(file) if one["param:seq_len"] == "512" and "fused" in one["name"]]
    before, after = sorted(float(one["min"]) for one in rows)
    assert after == pytest.approx(2 * before)
    assert {one["rounds"] for one in rows} == {"3"}


def test_a_file_is_compared_by_its_name_alone(run: Path, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(exported(run, "pytest-benchmark").content)
    done = compare(tmp_path, str(tmp_path / "x.json"), "--group-by=param:impl")
    assert "benchmark 'impl=attention.naive': 4 tests" in done.stdout


def test_the_axes_and_costs_stand_in_the_extra_info(run: Path) -> None:
    content = strict(exported(run, "pytest-benchmark").content)
    first = content["benchmarks"][0]
    assert first["params"]["seq_len"] == SIZES[0]
    assert {"impl", "seq_len", "d_model", "peak_bytes", "time_s", "time_hi_s"} <= first["extra_info"].keys()
    assert first["stats"]["rounds"] == len(first["stats"]["data"]) == 3
    assert first["options"]["min_rounds"] == read_run_directory(run).config["precision"]["min_rounds"]
    assert (content["commit_info"]["id"], content["commit_info"]["dirty"]) == ("abc123", True)
    assert content["machine_info"]["cpu"] == {"brand_raw": MACHINE["cpu"]["model"], "count": 2}
    assert content["datetime"].startswith("2023-11-14T22:13:20")


def test_the_same_run_gives_the_same_bytes(run: Path) -> None:
    assert exported(run, "pytest-benchmark").content == exported(run, "pytest-benchmark").content


def test_what_has_no_time_has_no_place_there_and_is_counted(run: Path) -> None:
    assert list(exported(run, "pytest-benchmark").notices) == ["1 case without a time left out"]
    assert exported(run, "pytest-benchmark").cases == 8


def test_without_rows_the_interval_stands_for_the_rounds(published: Path, tmp_path: Path) -> None:
    content = strict(exported(published, "pytest-benchmark").content)
    for one in content["benchmarks"]:
        stats, said = one["stats"], one["extra_info"]
        assert (stats["min"], stats["max"]) == (said["time_s"], said["time_hi_s"])
        assert (stats["rounds"], said["rounds_are"]) == (3, "an interval")
        assert "data" not in stats
    (tmp_path / "x.json").write_bytes(exported(published, "pytest-benchmark").content)
    assert "attention.naive" in compare(tmp_path, "x.json").stdout


def test_whatever_a_table_of_somebody_holds_the_json_is_one(run: Path) -> None:
    stored = read_run_directory(run)
    odd = {"impl": "a|b\nc\x1b]", "tokens_per_s": float("nan"), "steal_share": float("inf"), "flops": 2**70}
    content = export(replace(stored, lines=[replace(stored.lines[0], **odd)]), "pytest-benchmark").content
    (one,) = strict(content)["benchmarks"]
    assert one["name"].startswith("a|b\\nc\\x1b][seq_len=")
    assert one["extra_info"]["impl"] == odd["impl"]
    assert one["extra_info"]["flops"] == 2**70
    assert "tokens_per_s" not in one["extra_info"]


def test_a_run_without_times_is_one_line(run: Path) -> None:
    stored = read_run_directory(run)
    failed = replace(stored, lines=[line for line in stored.lines if line.status != "ok"])
    with pytest.raises(UsageError, match="has no times to export"):
        export(failed, "pytest-benchmark")
