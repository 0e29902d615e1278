"""Runs in the formats of others' viewers, of rows that hold the numbers of the test."""

import io
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from attention_run import make_run
from extras.export.exports import VIEWERS, exported, failed, publish, strict, timed, write
from test_csv_cells import cells_that_run, hostile_lines

from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.results.stored_run import StoredRun, read_run_directory
from harness.extras.export.formats import export

LAYER = Case("mine:Layer", 64, 16, 2, mode="train")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One layer with five trials, and one that failed."""
    facts = {"peak_bytes": 3 * 2**20, "weights_bytes": 2**20, "inputs_bytes": 2**19, "flops": 700, "depth": 3}
    rows = timed(LAYER, 10, 11, 12, 13, 30, **facts) + failed(replace(LAYER, seq_len=128), "incorrect")
    return write(tmp_path_factory.mktemp("run") / "run", rows, torch={"version": "2.13.0", "gpu": "H200"})


def liger(path: Path) -> pd.DataFrame:
    return pd.read_csv(io.BytesIO(exported(path, "liger-csv").content)).set_index("metric_name")


def test_rows_of_liger_have_quantiles_of_trials_and_all_memory(run: Path) -> None:
    rows = liger(run)
    values = ["y_value_50", "y_value_20", "y_value_80"]
    assert list(rows.loc["speed", values]) == pytest.approx([12, 10.8, 16.4])
    assert list(rows.loc["memory", values]) == [4.5, 4.5, 4.5]  # peak, weights and inputs
    assert dict(rows.metric_unit) == {"speed": "ms", "estimate-95": "ms", "memory": "MB"}
    speed = rows.loc["speed"]
    assert (speed.kernel_provider, speed.kernel_operation_mode) == ("mine:Layer", "full")
    assert (speed.x_name, speed.x_value, speed.gpu_name) == ("T", 64, "EPYC")
    assert speed.timestamp == "2023-11-14T22:13:20+00:00"


def test_the_interval_is_a_metric_of_its_own_so_that_a_series_has_one_configuration(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    rows = liger(run)
    assert {*rows.extra_benchmark_config_str} == {'{"d_model": 64, "num_heads": 2}'}
    assert {*rows.kernel_operation_mode} == {"no-grad-forward"}
    first = read_run_directory(run).lines[0]
    estimate = rows.loc["estimate-95"][rows.loc["estimate-95"].kernel_provider == first.impl].iloc[0]
    ends = [1e3 * value for value in (first.time_s, first.time_lo_s, first.time_hi_s) if value]
    assert list(estimate[["y_value_50", "y_value_20", "y_value_80"]]) == pytest.approx(ends)
    assert "memory" not in rows.index  # what weights and inputs take is unknown


def test_without_rows_liger_has_the_median_and_no_quantiles(run: Path, tmp_path: Path) -> None:
    rows = liger(publish(run, tmp_path / "published"))
    assert rows.loc["speed"].y_value_50 == pytest.approx(12)
    assert rows.loc["speed", ["y_value_20", "y_value_80", "timestamp"]].isna()[:2].all()
    assert rows.loc["speed"].timestamp == "unknown"


def test_no_cell_of_liger_is_a_formula(tmp_path: Path) -> None:
    text = export(StoredRun(tmp_path, hostile_lines(), [], {}, {}), "liger-csv").content.decode()
    assert "HYPERLINK" in text
    assert not cells_that_run(text)


def test_a_record_of_the_hud_is_a_metric_with_the_values_of_all_trials(run: Path) -> None:
    records = strict(exported(run, "pytorch-hud").content)
    metrics = {record["metric"]["name"]: record["metric"] for record in records}
    assert metrics["time_s"]["benchmark_values"] == pytest.approx([0.010, 0.011, 0.012, 0.013, 0.030])
    exact = {name: (metric["unit"], metric["benchmark_values"]) for name, metric in metrics.items() if name != "time_s"}
    assert exact == {"peak_bytes": ("B", [3 * 2**20]), "flops": ("FLOP", [700]), "depth": ("1", [3])}
    benchmark, model = records[0]["benchmark"], records[0]["model"]
    assert (benchmark["mode"], benchmark["dtype"]) == ("training", "float32")
    assert model == {"name": "mine:Layer", "type": "own", "origins": ["attn-harness"]}
    line = read_run_directory(run).lines[0]
    assert benchmark["extra_info"]["time_hi_s"] == str(line.time_hi_s)
    assert all(isinstance(text, str) for text in benchmark["extra_info"].values())


def test_without_rows_the_hud_has_the_estimate(run: Path, tmp_path: Path) -> None:
    records = strict(exported(publish(run, tmp_path / "published"), "pytorch-hud").content)
    time_s = read_run_directory(run).lines[0].time_s
    assert next(r["metric"] for r in records if r["metric"]["name"] == "time_s")["benchmark_values"] == [time_s]


def test_iterations_of_hugging_face_are_trials(run: Path) -> None:
    content = strict(exported(run, "huggingface-kernels").content)
    (timed_case,) = content["results"]
    numbers = timed_case["timingResults"]
    # The deviations from the mean of 15.2 are 5.2, 4.2, 3.2, 2.2 and 14.8, and 30 is above 13 + 1.5 · 2.
    assert numbers == pytest.approx(
        {
            "mean_ms": 15.2,
            "std_ms": (278.8 / 5) ** 0.5,
            "min_ms": 10,
            "max_ms": 30,
            "q1_ms": 11,
            "q3_ms": 13,
            "iqr_ms": 2,
            "outliers": 1,
            "iterations": 5,
        }
    )
    assert (timed_case["workload"], timed_case["verified"]) == (str(LAYER), True)
    assert content["machineInfo"] == {
        "gpu": "H200",
        "backend": "CPU",
        "pytorchVersion": "2.13.0",
        "os": "Linux 6.1",
        "cpu": "EPYC",
    }
    assert content["kernelCommitSha"] == "unversioned"


def test_hugging_face_needs_the_values_of_trials(run: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"2 cases failed, .*a trial in the run's rows"):
        exported(publish(run, tmp_path / "published"), "huggingface-kernels")


@pytest.mark.parametrize("name", VIEWERS)
def test_failed_and_suspect_cases_are_left_out_and_counted(name: str, run: Path) -> None:
    result = exported(run, name)
    assert (result.cases, result.notices[0]) == (1, f"1 case failed, suspect or without what {name} holds left out")
    stored = read_run_directory(run)
    lines = [replace(line, threads_after=1.0) for line in stored.lines]
    with pytest.raises(UsageError, match="nothing to export: 2 cases failed, suspect or"):
        export(replace(stored, lines=lines), name)
    assert len(export(replace(stored, lines=stored.lines[:1]), name).notices) == 1
