"""A whole sweep with device=cuda, on a simulated GPU of which the true costs are known."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from simulated_cuda.commands import NO_PLOTS, ONE_THREAD, STEADY, TWO_ROUNDS, Ended, harness, true_costs
from simulated_cuda.process import UUID

from harness.core.model.sweep_axes import Case

IMPLS = ("attention.naive", "rnn.elman")
SIZES = (16, 32, 64)
pytestmark = pytest.mark.slow
GRID = (
    f"impl={','.join(IMPLS)}",
    f"seq_len={','.join(map(str, SIZES))}",
    "d_model=32",
    "num_heads=2",
    "batch_size=1",
    "device=cuda",
    ONE_THREAD,
)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    cwd = tmp_path_factory.mktemp("sweep")
    return cwd / "run", harness("sweep", *GRID, *TWO_ROUNDS, "dtype=float32", "out=run", cwd=cwd)


@pytest.fixture(scope="module")
def summary(swept: tuple[Path, Ended]) -> pd.DataFrame:
    return pd.read_csv(swept[0] / "summary.csv")


@pytest.fixture(scope="module")
def true_s(summary: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    cases = [Case(row.impl, row.seq_len, row.d_model, row.num_heads, device="cuda") for row in summary.itertuples()]
    found = true_costs(cases, tmp_path_factory.mktemp("truth"))
    return {name: np.array([one[name] for one in found]) for name in ("hot_s", "cold_s")}


def test_every_case_is_verified_counted_and_timed(swept: tuple[Path, Ended], summary: pd.DataFrame) -> None:
    assert (swept[1].status, swept[1].err) == (0, "")
    assert len(summary) == len(IMPLS) * len(SIZES)
    assert set(summary.status) == {"ok"}


def test_a_time_is_that_of_the_gpu_to_within_a_hundredth(summary: pd.DataFrame, true_s: dict[str, np.ndarray]) -> None:
    assert summary.time_s.to_numpy() == pytest.approx(true_s["cold_s"], rel=0.01)
    assert summary.hot_gpu_s.to_numpy() == pytest.approx(true_s["hot_s"], rel=0.01)


def test_every_column_of_a_gpu_is_filled(summary: pd.DataFrame) -> None:
    assert set(summary.gpu_time_by) == {"held"}
    for name in ("queue_held", "hot_gpu_s", "clean_gpu_s", "host_s", "throttled_share", "wall_call_s", "probe_s"):
        assert summary[name].notna().all(), name
    assert (summary.disturbed_share == 0).all()
    assert summary.sm_clock_mhz.to_numpy() == pytest.approx(1980, rel=0.02)
    assert (summary.peak_bytes > 0).all()
    assert summary.peak_resident_bytes.isna().all()


def test_the_cache_and_the_launch_are_as_asked_for(tmp_path: Path) -> None:
    grid = ("impl=attention.naive", "seq_len=32", *GRID[2:], "dtype=float32", "out=run")
    fast = {
        **STEADY,
        "flops_per_s": {"float32": 1e12, "float64": 1e12, "bfloat16": 1e13},
    }  # so that bytes are what counts
    eager = ",".join(f"{{cache:{cache},launch:eager}}" for cache in ("hot", "clean", "cold"))
    points = f"points=[{eager},{{cache:cold,launch:graph}}]"
    ended = harness("sweep", *grid, *TWO_ROUNDS, NO_PLOTS, points, cwd=tmp_path, settings=fast)
    assert (ended.status, ended.err) == (0, ""), ended.out
    summary = pd.read_csv(tmp_path / "run" / "summary.csv").set_index(["cache", "launch"])
    (true,) = true_costs([Case("attention.naive", 32, 32, 2, device="cuda")], tmp_path, fast)
    for cache in ("hot", "clean", "cold"):
        assert summary.time_s[cache, "eager"] == pytest.approx(true[f"{cache}_s"], rel=0.01)
    assert summary.time_s["cold", "graph"] == pytest.approx(true["graph_s"], rel=0.01)
    assert summary.gpu_time_by["cold", "graph"] == "graph"
    assert true["hot_s"] < 0.9 * true["clean_s"] < 0.8 * true["cold_s"]


def test_a_case_is_timed_although_its_memory_is_not_counted_and_runs_out_while_the_layer_is_watched(
    tmp_path: Path,
) -> None:
    grid = ("impl=simulated_cuda.trials:NeedsMoreWatched", "seq_len=32", *GRID[2:], "out=run")
    settings = {**STEADY, "allocator": "cudaMallocAsync"}
    ended = harness("sweep", *grid, *TWO_ROUNDS, NO_PLOTS, cwd=tmp_path, settings=settings)
    assert (ended.status, ended.err) == (0, ""), ended.out
    (row,) = pd.read_csv(tmp_path / "run" / "summary.csv").itertuples()
    assert (row.status, row.gpu_time_by, row.time_s > 0) == ("ok", "held", True)
    assert pd.isna([row.peak_bytes, row.peak_traced_bytes, row.flops, row.min_bytes]).all()
    assert "peak_bytes: torch uses the allocator cudaMallocAsync, which does not count" in row.facts_unknown
    assert "out of memory while the layer was watched, where it runs uncompiled" in row.facts_unknown
    assert "out of memory while the layer was watched" in (tmp_path / "run" / "report.md").read_text()


def test_nvml_tells_the_energy_of_a_call_and_what_gpu_this_is(tmp_path: Path) -> None:
    grid = ("impl=attention.fused", "seq_len=128", *GRID[2:], "dtype=float32", "out=run")
    ended = harness("sweep", *grid, *TWO_ROUNDS, NO_PLOTS, cwd=tmp_path, settings={**STEADY, "nvml": True})
    assert (ended.status, ended.err) == (0, "")
    (row,) = pd.read_csv(tmp_path / "run" / "summary.csv").itertuples()
    assert row.energy_j == pytest.approx(600 * row.hot_gpu_s, rel=0.05)
    torch: dict[str, Any] = json.loads((tmp_path / "run" / "machine.json").read_text())["torch"]
    assert (torch["gpu"], torch["gpu_memory_bytes"]) == ("Simulated GPU", 2**28)
    ((uuid, state),) = torch["gpu_states"].items()
    assert uuid == f"GPU-{UUID}"
    assert (state["index"], state["name"]) == (0, "Simulated GPU")
    assert (state["driver"], state["power_limit_w"]) == ("1.0 (simulated)", 700)


def test_the_cost_models_follow_the_true_costs(swept: tuple[Path, Ended], true_s: dict[str, np.ndarray]) -> None:
    summary = pd.read_csv(swept[0] / "summary.csv")
    of_rnn = (summary.impl == "rnn.elman").to_numpy()
    true_exponent = np.polyfit(np.log(SIZES), np.log(true_s["cold_s"][of_rnn]), 1)[0]
    measured = np.polyfit(np.log(SIZES), np.log(summary.time_s[of_rnn]), 1)[0]
    assert measured == pytest.approx(true_exponent, abs=0.02)
    laws = pd.read_csv(swept[0] / "laws.csv")
    assert set(IMPLS) <= set(laws.impl)


def test_a_layer_that_replaces_the_clock_or_the_events_has_the_times_of_an_honest_one(tmp_path: Path) -> None:
    names = ("Honest", "HalvesTheClock", "HalvesEvents", "HalvesTheMethod")
    impls = ",".join(f"simulated_cuda.cheats:{name}" for name in names)
    ended = harness("sweep", f"impl={impls}", "seq_len=256", *GRID[2:], *TWO_ROUNDS, NO_PLOTS, "out=run", cwd=tmp_path)
    assert (ended.status, ended.err) == (0, ""), ended.out
    summary = pd.read_csv(tmp_path / "run" / "summary.csv").set_index("impl")
    assert list(summary.status) == ["ok"] * len(names)
    columns = ["time_s", "hot_gpu_s", "host_s", "wall_call_s"]
    honest = summary.loc["simulated_cuda.cheats:Honest", columns]
    ratios = summary[columns] / honest
    assert ratios.to_numpy() == pytest.approx(1.0, rel=0.2), ratios
