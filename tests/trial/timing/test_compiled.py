"""Compilation is told apart from other slow first calls."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from harness.trial.timing.compiled import compile_s


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> dict:
    for name in ("torch._dynamo.utils", "triton.runtime.jit"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return sys.modules


def test_a_slow_first_call_without_a_compiler_is_no_compilation(modules: dict) -> None:
    assert compile_s(0.5, 0.001) == 0.0


@pytest.mark.parametrize(("graphs", "seconds"), [(1, 0.499), (0, 0.0)])
def test_what_a_first_call_took_beyond_a_warm_one_is_compilation_if_a_graph_was_made(
    modules: dict, graphs: int, seconds: float
) -> None:
    modules["torch._dynamo.utils"] = SimpleNamespace(counters={"stats": {"unique_graphs": graphs}})
    assert compile_s(0.5, 0.001) == pytest.approx(seconds)


@pytest.mark.parametrize(("versions", "seconds"), [({0: "binary"}, 0.499), ({}, 0.0)])
def test_a_triton_kernel_that_was_compiled_counts_and_one_that_only_exists_does_not(
    modules: dict, versions: dict, seconds: float
) -> None:
    triton = ModuleType("triton.runtime.jit")
    triton.JITFunction = type("JITFunction", (), {})
    kernel = triton.JITFunction()
    kernel.device_caches = versions
    modules["triton.runtime.jit"] = triton
    assert compile_s(0.5, 0.001) == pytest.approx(seconds)
