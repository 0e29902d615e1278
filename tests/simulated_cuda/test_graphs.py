"""Timed trials on the simulated GPU whose calls are captured as graphs."""

import json
from typing import Any

import pytest
from simulated_cuda.commands import STEADY, on_simulated_gpu

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ended = on_simulated_gpu("-m", "simulated_cuda.graphs", cwd=tmp_path_factory.mktemp("graphs"), settings=STEADY)
    assert ended.status == 0, ended.err
    return json.loads(ended.out)


@pytest.mark.parametrize("mode", ["train", "backward"])
def test_a_backward_pass_is_timed_as_a_graph(rows: dict[str, Any], mode: str) -> None:
    assert (rows[mode]["gpu_time_by"], rows[mode]["graph_note"]) == ("graph", None)
    assert rows[mode]["queue_held"] == 1.0


def test_a_layer_with_dropout_that_cannot_be_captured_is_called_on_and_the_reason_told(rows: dict[str, Any]) -> None:
    found = rows["waits"]
    assert found["graph_note"].endswith("RuntimeError: CUDA error: operation not permitted when stream is capturing")
    assert (found["gpu_time_by"], found["host_bound"]) == (None, True)
    assert len(found["samples_s"]) > 50
