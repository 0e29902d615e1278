"""What `cache` and `launch` choose: which cache a call finds, and whether it reaches the GPU as one graph."""

from collections.abc import Callable
from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from core.trial.timing.cuda.simulated_gpu import SimGpu

from harness.core.config.compose import compose
from harness.core.model.case_grid import collapsed
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case, setting_text
from harness.core.stats.estimate import value_of_trial
from harness.core.trial.result_checks import WrongResult
from harness.core.trial.timing.cuda import sample_cuda
from harness.core.trial.timing.sampler import rounded
from harness.core.trial.timing.timed_trial import as_graph
from harness.core.trial.workload import Unsupported

CASE = Case("attention.fused", 64, 64, 4, device="cuda", launch="graph")


@pytest.mark.parametrize("launch", ["eager", "graph"])
@pytest.mark.parametrize("cache", ["cold", "clean", "hot"])
def test_the_time_is_of_the_cache_that_was_asked_for(monkeypatch: pytest.MonkeyPatch, cache: str, launch: str) -> None:
    gpu = SimGpu(graph_launch_s=5e-6)
    call, device = gpu.layer(3, 20e-6, reads_bytes=2**19), gpu.device(monkeypatch)
    timed = device.capture(call) if launch == "graph" else call
    samples, extras = sample_cuda(timed, 0.02, device, gpu.time, cache=cache, is_graph=launch == "graph")
    assert median(samples.samples_s) == pytest.approx(getattr(call, f"{cache}_s"), rel=0.01)
    assert extras["gpu_time_by"] == {"eager": "held", "graph": "graph"}[launch]
    assert extras["clean_gpu_s"] == pytest.approx(call.clean_s, rel=0.01)
    assert extras["queue_held"] == 1.0


def test_a_summary_knows_a_graphs_time_by_the_value_of_its_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu(jitter=0.3, tick_s=32e-9)
    device = gpu.device(monkeypatch)
    replay = device.capture(gpu.layer(30, 2e-6))
    samples, extras = sample_cuda(replay, 0.02, device, gpu.time, is_graph=True)
    assert extras["graph_s"] == value_of_trial(np.array(rounded(samples.samples_s)), "cuda")


def test_a_chain_too_long_for_the_queue_is_launched_in_one_as_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = SimGpu(depth=100, launch_s=5e-6)
    device = gpu.device(monkeypatch)
    _, extras = sample_cuda(device.capture(gpu.layer(2000, 1e-6)), 0.02, device, gpu.time, is_graph=True)
    assert extras["wall_call_s"] == pytest.approx(2e-3, rel=0.02)
    assert extras["host_bound"] is False


class Captures:
    """A device whose capture returns a replay of its own, or fails."""

    def __init__(self, replay: Callable[[], Any] | Exception, **lacks: str) -> None:
        self.replay, self.lacks = replay, lacks

    def capture(self, call: Callable[[], Any], remake: Any = None) -> Callable[[], Any]:
        if isinstance(self.replay, Exception):
            raise self.replay
        return self.replay


def work(call: Callable[[], Any], *varying: torch.Tensor) -> Any:
    return SimpleNamespace(call=call, remake=lambda: call, varying=varying, inputs=varying, layer=torch.nn.Module())


@pytest.mark.parametrize(
    ("device", "why"),
    [
        (Captures(RuntimeError("CUDA error: operation not permitted\nwhen stream is capturing")), "not permitted when"),
        (Captures(torch.zeros_like, capture="torch.mps has no graphs"), "torch.mps has no graphs"),
    ],
)
def test_a_call_that_cannot_be_captured_is_refused_with_the_reason_and_what_to_type(device: Any, why: str) -> None:
    with pytest.raises(Unsupported, match=rf"{why}.*: measure with launch=eager$"):
        as_graph(device, work(lambda: torch.ones(3)), CASE)


def test_a_graph_that_returns_something_else_than_the_call_is_incorrect() -> None:
    x = torch.ones(3)
    replay = as_graph(Captures(lambda: 2 * x), work(lambda: x + x, x), CASE)  # type: ignore[arg-type]
    assert replay().tolist() == [2, 2, 2]
    with pytest.raises(WrongResult, match="the replay of its graph is off"):
        as_graph(Captures(lambda: torch.ones(3)), work(lambda: x + x, x), CASE)  # type: ignore[arg-type]


def test_a_graph_whose_gradients_are_other_ones_is_incorrect() -> None:
    x = torch.ones(3)

    def call(gradient: float) -> torch.Tensor:
        x.grad = torch.full((3,), gradient)
        return x

    replay = as_graph(Captures(lambda: call(2.0)), work(lambda: call(2.0), x), CASE)  # type: ignore[arg-type]
    assert replay() is x
    with pytest.raises(WrongResult, match="the replay of its graph is off"):
        as_graph(Captures(lambda: call(2.1)), work(lambda: call(2.0), x), CASE)  # type: ignore[arg-type]


def test_a_layer_that_draws_random_numbers_is_not_compared_with_its_graph() -> None:
    as_graph(Captures(lambda: torch.rand(3)), work(lambda: torch.rand(3)), CASE)  # type: ignore[arg-type]


def test_cache_and_launch_are_settings_of_a_gpus_cases_and_collapse_on_the_cpu() -> None:
    case = Case("rnn.elman", 64, 64, 1, device="cuda", cache="hot", launch="graph")
    assert " cache=hot launch=graph " in case.key
    assert "hot cache, CUDA graph" in setting_text(case.as_dict())
    on_cpu = Case("rnn.elman", 64, 64, 1, cache="hot", launch="graph")
    assert collapsed(on_cpu, lambda impl: False) == Case("rnn.elman", 64, 64, 1)
    assert case.small().cache == "cold"


@pytest.mark.parametrize("option", ["cache=hot", "launch=graph"])
def test_a_choice_without_effect_on_the_cpu_is_an_error(option: str) -> None:
    axis = option.partition("=")[0]
    with pytest.raises(UsageError, match=f"^{option} is of GPUs: give device=cuda too, or leave it out$"):
        compose([option])
    compose([option, "device=cuda"])
    compose([f"{axis}={compose([]).axes[axis][0]}"])
