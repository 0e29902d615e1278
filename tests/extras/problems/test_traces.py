"""Traces of solutions of definitions, of rows that hold the numbers of the test."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from extras.export.exports import exported, failed, strict, timed, write

from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case

FILES = Path(__file__).parent / "files"
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


def test_a_run_of_other_layers_has_no_traces(tmp_path: Path) -> None:
    run = write(tmp_path / "run", timed(Case("mine:Layer", 64, 16, 2), 10, 11, 12))
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
