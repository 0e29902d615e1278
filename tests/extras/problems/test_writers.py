"""Runs in the formats of others' viewers, of rows that hold the numbers of the test."""

import io
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from attention_run import MACHINE, make_run
from cli.test_damaged_runs import DAMAGES, read_damaged
from extras.export.exports import exported, publish, strict
from rows import row
from test_csv_cells import cells_that_run, hostile_lines

from harness.core.config import compose
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.results import row_files, run_directory
from harness.core.results.stored_run import StoredRun, read_run_directory
from harness.extras.export.formats import export

FILES = Path(__file__).parent / "files"
OF_ANY_RUN = ["liger-csv", "pytorch-hud", "huggingface-kernels"]
LAYER = Case("mine:Layer", 64, 16, 2, mode="train")
BEGAN = 1_700_000_000.0


def timed(case: Case, *values_ms: float, **facts: Any) -> list[dict[str, Any]]:
    trials = [row(case, "time", i, samples_s=[value / 1e3], probe_s=1e-4) for i, value in enumerate(values_ms)]
    return [row(case, "verify"), row(case, "facts", **facts), *trials]


def failed(case: Case, status: str) -> list[dict[str, Any]]:
    return [row(case, "verify", status=status, reason=f"it is {status}")]


def write(path: Path, rows: list[dict[str, Any]], **machine: Any) -> Path:
    run_directory.create(path, compose([]).record, {**MACHINE, **machine})
    writer = row_files.RowWriter(path)
    for one in rows:
        writer.write({**one, "at": BEGAN})
    writer.close()
    return path


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


@pytest.mark.parametrize("name", OF_ANY_RUN)
def test_failed_and_suspect_cases_are_left_out_and_counted(name: str, run: Path) -> None:
    result = exported(run, name)
    assert (result.cases, result.notices[0]) == (1, f"1 case failed, suspect or without what {name} holds left out")
    stored = read_run_directory(run)
    lines = [replace(line, threads_after=1.0) for line in stored.lines]
    with pytest.raises(UsageError, match="nothing to export: 2 cases failed, suspect or"):
        export(replace(stored, lines=lines), name)
    assert len(export(replace(stored, lines=stored.lines[:1]), name).notices) == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_written_or_refused_in_a_line(
    damage: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    readers = [["export", "--format", name, "-o", "exported"] for name in OF_ANY_RUN]
    read_damaged(make_run(tmp_path / "run"), damage, readers, capsys)


PRODUCT = "problem-file:product.json"
SOLUTION = f"{PRODUCT}+product_solution.json"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with the files of definitions, which commands run in."""
    shutil.copytree(FILES, tmp_path / "place")
    monkeypatch.chdir(tmp_path / "place")
    return tmp_path / "place"


def of_definition(impl: str, **at: Any) -> Case:
    return Case(impl, **{"seq_len": 1, "d_model": 1, "num_heads": 1, "dtype": "bfloat16"} | at)


def traces_of(*rows: dict[str, Any], **machine: Any) -> list[dict[str, Any]]:
    content = exported(write(Path("run"), list(rows), **machine), "flashinfer-trace").content
    return [strict(line.encode()) for line in content.decode().splitlines()]


def test_a_trace_has_the_time_of_a_solution_beside_that_of_the_reference(place: Path) -> None:
    solution, reference = of_definition(SOLUTION, options="M=48"), of_definition(PRODUCT, options="M=48")
    (trace,) = traces_of(*timed(solution, 2, 2, 2, output_error_max=0.01), *timed(reference, 3, 3, 3))
    assert (trace["definition"], trace["solution"]) == ("product", "one")
    random = {"type": "random"}
    assert trace["workload"] == {"uuid": "product M=48", "axes": {"M": 48}, "inputs": {"A": random, "B": random}}
    evaluation = trace["evaluation"]
    assert evaluation["performance"] == pytest.approx(
        {"latency_ms": 2, "reference_latency_ms": 3, "speedup_factor": 1.5}
    )
    assert (evaluation["status"], evaluation["timestamp"]) == ("PASSED", "2023-11-14T22:13:20+00:00")
    assert evaluation["environment"] == {"hardware": "EPYC", "libs": {"torch": "unknown"}}
    extra = evaluation["correctness"]["extra"]
    assert (extra["time_s"], extra["output_error_max"], extra["trials"]) == (pytest.approx(0.002), 0.01, 3)
    assert extra["time_lo_s"] <= 0.002 <= extra["time_hi_s"]


def test_errors_of_single_elements_are_unknown(place: Path) -> None:
    (trace,) = traces_of(*timed(of_definition(SOLUTION), 2, 2, 2, output_error_max=0.01))
    correctness = trace["evaluation"]["correctness"]
    assert (correctness["max_relative_error"], correctness["max_absolute_error"]) == ("NaN", "NaN")
    assert trace["workload"]["axes"] == {"M": 16}  # the default of the definition
    assert set(trace["evaluation"]["performance"]) == {"latency_ms"}  # without a time of the reference


@pytest.mark.parametrize(
    ("status", "written"),
    [
        ("incorrect", "INCORRECT_NUMERICAL"),
        ("timeout", "TIMEOUT"),
        ("oom", "RUNTIME_ERROR"),
        ("error", "RUNTIME_ERROR"),
    ],
)
def test_a_failed_case_is_a_trace_without_a_time(status: str, written: str, place: Path) -> None:
    (trace,) = traces_of(*failed(of_definition(SOLUTION), status))
    evaluation = trace["evaluation"]
    assert evaluation["status"] == written
    assert evaluation["log"].endswith(f": it is {status}")
    assert "performance" not in evaluation
    assert ("correctness" in evaluation) == (status == "incorrect")


@pytest.mark.parametrize("status", ["unsupported", "killed"])
def test_what_says_nothing_of_a_solution_is_no_trace(status: str, place: Path) -> None:
    with pytest.raises(UsageError, match="nothing to export: 1 case failed"):
        traces_of(*failed(of_definition(SOLUTION), status))


def test_a_workload_has_all_variable_axes_its_numbers_and_no_offsets(place: Path) -> None:
    name = "problem-file:ragged.json+product_solution.json"
    (trace,) = traces_of(*failed(of_definition(name, seq_len=12, batch_size=4, options="total_kv=16"), "error"))
    workload = trace["workload"]
    assert workload["axes"] == {"total_q": 12, "batch_size": 4, "total_kv": 16, "len_indptr": 5}
    assert workload["uuid"] == "ragged batch_size=4 len_indptr=5 total_kv=16 total_q=12"
    assert workload["inputs"] == {
        "q": {"type": "random"},
        "k": {"type": "random"},
        "v": {"type": "random"},
        "sm_scale": {"type": "scalar", "value": 0.5},
    }


def test_a_definition_that_has_changed_since_is_refused(place: Path) -> None:
    digests = {"product.json": "0" * 16}
    with pytest.raises(UsageError, match=r"product\.json is not as it was measured: sweep it again"):
        traces_of(*timed(of_definition(SOLUTION), 2, 2, 2), layers={SOLUTION: digests})


def test_a_run_of_other_layers_has_no_traces(run: Path) -> None:
    with pytest.raises(UsageError, match="traces are of solutions of a definition, where their files are"):
        exported(run, "flashinfer-trace")


def test_the_package_of_the_format_reads_the_traces(place: Path) -> None:
    package = pytest.importorskip("flashinfer_bench.data", exc_type=ImportError)
    rows = [*timed(of_definition(SOLUTION), 2, 2, 2), *timed(of_definition(PRODUCT), 3, 3, 3)]
    statuses = {4: "incorrect", 5: "timeout", 6: "oom", 7: "error"}
    for size, status in statuses.items():
        rows += failed(of_definition(SOLUTION, options=f"M={size}"), status)
    traces = [package.Trace.model_validate(trace) for trace in traces_of(*rows)]
    found = {trace.workload.axes["M"]: trace.evaluation.status.value for trace in traces}
    errors = {6: "RUNTIME_ERROR", 7: "RUNTIME_ERROR"}
    assert found == {16: "PASSED", 4: "INCORRECT_NUMERICAL", 5: "TIMEOUT", **errors}
    assert [trace.workload.axes["M"] for trace in traces if trace.is_successful()] == [16]
