"""One traced call: its operations and its tensors at the peak agree with the facts, and are known to the byte."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor

N, D = 24, 16


@pytest.fixture
def trace(runner: Executor, tmp_path: Path) -> Any:
    def of(case: Case) -> dict[str, Any]:
        outcome = runner.run("trace", case, {"chrome": str(tmp_path / "trace.json.gz")})
        assert outcome.ok, outcome.reason
        return dict(outcome.values)

    return of


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("impl", ["rnn.elman", "attention.naive"])
def test_operations_and_their_flops_add_up_to_the_facts(runner: Executor, trace: Any, impl: str, mode: str) -> None:
    case = Case(impl, N, D, 2, mode=mode)
    facts, traced = runner.run("facts", case).values, trace(case)
    assert sum(calls for _, calls, *_ in traced["operations"]) == facts["ops"]
    assert sum(flops for _, _, flops, *_ in traced["operations"]) == facts["flops"]
    assert traced["unknown"] == []


@pytest.mark.parametrize("impl", ["rnn.elman", "attention.naive", "rnn.torch"])
def test_the_tensors_at_the_peak_are_the_peak_that_the_allocator_reports(
    runner: Executor, trace: Any, impl: str
) -> None:
    case = Case(impl, 256, D, 2)
    assert sum(row[-1] for row in trace(case)["tensors"]) == runner.run("facts", case).values["peak_bytes"]


def test_a_linear_layer_is_known_to_the_byte(trace: Any) -> None:
    traced = trace(Case("planted:NoHeads", N, D, 1))
    (product,) = [row for row in traced["operations"] if row[0] == "aten::addmm"]
    name, calls, flops, moved, ((place, times),) = product
    assert (name, calls, flops) == ("aten::addmm", 1, 2 * N * D * D)
    assert moved == 4 * (N * D + D * D + D + N * D)
    assert (place.partition(":")[0], times) == ("planted.py", 1)
    assert traced["tensors"] == [["aten::addmm", f"{N}×{D}", "float32", 1, 4 * N * D]]


def test_a_trace_repeats_exactly_and_its_chrome_trace_is_valid(trace: Any, tmp_path: Path) -> None:
    case = Case("attention.fused", N, D, 2, mode="train")
    first, second = trace(case), trace(case)
    for exact in ("operations", "tensors", "unknown"):
        assert first[exact] == second[exact]
    assert 0.9 < sum(share for _, share in first["shares"]) < 1.001
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        events = json.load(file)["traceEvents"]
    assert {"aten::addmm"} <= {event["name"] for event in events}


def test_a_layer_past_torch_has_shares_and_says_what_was_not_seen(trace: Any) -> None:
    traced = trace(Case("core.trial.counts.unseen:Numpy", N, D, 1))
    assert traced["unknown"]
    assert traced["shares"]
