"""The cases of the tests and benchmarks for a GPU are ones that the harness measures. No GPU is needed to find out.

A case that a layer refuses would fail, or be skipped, on every GPU, and nobody would notice without one.
"""

import runpy
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from adapters import test_on_gpu as adapters
from bench import bench_do_bench
from bench.gate import cases as gate
from bench.gate import repeated
from trial import test_cuda

from harness.sweep_axes import Case
from harness.trial.metrics.flops import claimed_work
from harness.trial.trial_kinds import refusals
from impls.adapters.entries import ADAPTERS
from impls.registry import IMPLS

# In float32 without tensor cores, those of a GeForce RTX 5090.
FASTEST_FLOPS_PER_S = 105e12


@pytest.fixture(autouse=True)
def _every_package_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("packages", "transformers_functions"):
        monkeypatch.setattr(f"impls.adapters.{module}.find_spec", lambda package: package)
    monkeypatch.setattr("impls.adapters.kernels.is_loaded", lambda kernel: True)


def refused(cases: Iterable[Case]) -> dict[Case, str]:
    """The cases that their layers refuse, with the reason."""
    found = {case: refusals(case, [case.as_dict()])["refusals"][0] for case in cases}
    return {case: refusal[1] for case, refusal in found.items() if refusal is not None}


def test_no_layer_refuses_its_case_in_the_test_of_all_layers() -> None:
    assert refused(map(test_cuda.case_of, IMPLS)) == {}


def test_no_adapter_refuses_its_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    for adapter in ADAPTERS:
        monkeypatch.setitem(IMPLS, adapter.name, adapter)
    of = adapters.case_of
    cases = (of(one.name, dtype, mode) for one in ADAPTERS for dtype in adapters.DTYPES for mode in adapters.MODES)
    assert refused(cases) == {}


def test_no_layer_refuses_its_case_beside_do_bench() -> None:
    assert refused(bench_do_bench.CASES) == {}


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


def test_a_case_that_every_gpu_refuses_is_found() -> None:
    of_two_heads = Case("attention.gqa", 128, 128, 2, dtype="bfloat16", device="cuda")
    assert list(refused([of_two_heads])) == [of_two_heads]
