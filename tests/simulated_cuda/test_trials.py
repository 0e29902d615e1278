"""Trials on the simulated GPU, without the commands around them."""

import json
from pathlib import Path
from typing import Any

import pytest
from simulated_cuda.commands import STEADY, on_simulated_gpu

pytestmark = pytest.mark.slow
# As `operations.WORKSPACE_BYTES`, which a process without a GPU cannot import.
WORKSPACE_BYTES = 2**20


def told(which: str, cwd: Path) -> dict[str, Any]:
    ended = on_simulated_gpu("-m", "simulated_cuda.trials", which, cwd=cwd, settings=STEADY)
    assert ended.status == 0, ended.err
    return json.loads(ended.out)


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return told("timed", tmp_path_factory.mktemp("timed"))


@pytest.mark.parametrize("mode", ["train", "backward"])
def test_a_backward_pass_is_timed_as_a_graph(rows: dict[str, Any], mode: str) -> None:
    assert (rows[mode]["gpu_time_by"], rows[mode]["graph_note"]) == ("graph", None)
    assert rows[mode]["queue_held"] == 1.0


def test_every_sample_of_a_training_step_has_the_true_time_to_within_a_hundredth(rows: dict[str, Any]) -> None:
    # Its gradients are replaced from sample to sample, which launches nothing.
    row, true = rows["step"], rows["true_step"]
    assert row["gpu_time_by"] == "held"
    assert row["samples_s"] == pytest.approx([true["cold_s"]] * len(row["samples_s"]), rel=0.01)
    assert row["graph_s"] == pytest.approx(true["graph_s"], rel=0.01)


def test_a_layer_with_dropout_that_cannot_be_captured_is_called_on_and_the_reason_told(rows: dict[str, Any]) -> None:
    found = rows["waits"]
    assert found["graph_note"].endswith("RuntimeError: CUDA error: operation not permitted when stream is capturing")
    assert (found["gpu_time_by"], found["host_bound"]) == (None, True)
    assert len(found["samples_s"]) > 50


def test_an_interleaved_trial_clocks_up_and_knows_what_a_call_takes_among_others(rows: dict[str, Any]) -> None:
    assert rows["turns"]["took_s"] >= 0.05
    # A call with a wait of its own takes a sixth longer.
    assert rows["turns"]["call_s"] == pytest.approx(rows["forward"]["wall_call_s"], rel=0.05)


def test_the_peak_is_without_the_workspaces_that_cublas_makes_for_each_thread_and_keeps(tmp_path: Path) -> None:
    found = told("peaks", tmp_path)
    assert 0 < found["reported"] < WORKSPACE_BYTES
    # The second one is of autograd's thread.
    assert found["first"] == found["reported"] + 2 * WORKSPACE_BYTES


def test_the_harness_do_bench_and_the_truth_agree_to_within_a_hundredth(tmp_path: Path) -> None:
    found = told("do_bench", tmp_path)
    assert found["true"] > 50e-6
    assert found["harness"] == pytest.approx(found["true"], rel=0.01)
    assert found["do_bench"] == pytest.approx(found["true"], rel=0.01)
