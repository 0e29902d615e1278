"""The cases of the gate's proof on a GPU are ones that the harness measures. No GPU is needed to find out."""

import runpy
from dataclasses import replace
from typing import Any

import pytest
from core.trial.test_cuda_cases import refused
from extras.compare import bench_gate
from extras.compare.gate import cases as gate
from extras.compare.gate import repeated
from gpu_evidence import parts

from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.flops import claimed_work

# In float32 without tensor cores, those of a GeForce RTX 5090.
FASTEST_FLOPS_PER_S = 105e12


@pytest.fixture
def gate_pairs(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The pairs of the gate's proof on a GPU."""
    monkeypatch.setenv("HARNESS_BENCH_DEVICE", "cuda")
    monkeypatch.delenv("HARNESS_SIMULATED_CUDA", raising=False)
    on_gpu = runpy.run_path(gate.__file__)  # its sizes are those of the device
    return [*on_gpu["alike"](), *on_gpu["planted"]((0.05, 0.0), 0)[0]]


def test_no_layer_refuses_its_case_in_the_proof_of_the_gate(gate_pairs: list[Any]) -> None:
    assert {pair.base.device for pair in gate_pairs} == {"cuda"}
    assert refused(case for pair in gate_pairs for case in (pair.base, pair.head)) == {}


def least_s(case: Case) -> float:
    """The seconds that the fastest GPU needs for the case's FLOPs."""
    layer = getattr(repeated, case.impl.partition(":")[2], None)
    times, one = (layer.times, replace(case, impl=layer.impl)) if layer else (1, case)
    return times * claimed_work(one)["flops_claimed"] / FASTEST_FLOPS_PER_S


def test_a_call_in_the_proof_of_the_gate_keeps_any_gpu_busy_for_a_third_of_a_millisecond(gate_pairs: list[Any]) -> None:
    assert min(least_s(pair.base) for pair in gate_pairs) >= 0.3e-3


def test_the_gate_compares_one_slow_down_of_5_percent_and_one_of_none(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = next(dict(part.variables) for part in parts.PARTS if part.name == "gate")
    assert [variables[f"HARNESS_BENCH_{name}"] for name in ("ALIKE", "PLANTED", "BELOW")] == ["0", "1", "0"]
    monkeypatch.setattr(gate, "CASES", int(variables["HARNESS_BENCH_CASES"]))
    _, effects = gate.planted(bench_gate.FOUND, turn=0)
    assert effects == pytest.approx([0.05, 0.0])
