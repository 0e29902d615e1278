"""Compilation is distinguished from other slow first calls."""

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from unittest.mock import patch

import pytest

from harness.core.trial import compilation
from harness.core.trial.compilation import call_until_compiled, compilations, compile_s


@pytest.fixture
def modules() -> Iterator[dict]:
    with patch.dict(sys.modules), patch.dict(compilation._noted_kernels):  # put back what a test replaces, or adds
        for name in ("torch._dynamo.utils", "triton.runtime.jit"):
            sys.modules.pop(name, None)
        yield sys.modules


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


class Layer:
    """Compiles in its first calls, as many of them as are said."""

    def __init__(self, modules: dict, compiling_calls: int) -> None:
        self._counters = {"stats": {"unique_graphs": 0}}
        self._left = compiling_calls
        self.calls = 0
        modules["torch._dynamo.utils"] = SimpleNamespace(counters=self._counters)

    def call(self) -> None:
        self.calls += 1
        if self._left:
            self._left -= 1
            self._counters["stats"]["unique_graphs"] += 1


@pytest.mark.parametrize("compiling", [0, 1, 3])
def test_calls_are_made_until_one_compiles_nothing(modules: dict, compiling: int) -> None:
    layer = Layer(modules, compiling)
    call_until_compiled(layer.call, lambda: None)
    assert layer.calls == compiling + 1
    assert compilations() == compiling


def test_a_layer_that_never_stops_compiling_is_not_called_for_ever(modules: dict) -> None:
    layer = Layer(modules, 10**9)
    call_until_compiled(layer.call, lambda: None)
    assert layer.calls < 100


def test_each_version_of_a_triton_kernel_counts(modules: dict) -> None:
    triton = ModuleType("triton.runtime.jit")
    triton.JITFunction = type("JITFunction", (), {})
    kernel = triton.JITFunction()
    kernel.device_caches = {0: ({"float32": "binary", "bfloat16": "binary"}, "target"), 1: ({}, "target")}
    modules["triton.runtime.jit"] = triton
    assert compilations() == 2
