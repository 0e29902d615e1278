"""The cases of the tests and benchmarks for a GPU are ones that the harness measures. No GPU is needed to find out.

A case that a layer refuses would fail, or be skipped, on every GPU, and nobody would notice without one.
"""

from collections.abc import Iterable

import pytest
from adapters import test_on_gpu as adapters
from core.trial import test_cuda

from benchmarks import bench_do_bench
from harness.core.model.sweep_axes import Case
from harness.core.trial.trial_kinds import refusals
from impls.adapters.entries import ADAPTERS
from impls.registry import IMPLS


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


def test_a_case_that_every_gpu_refuses_is_found() -> None:
    of_two_heads = Case("attention.gqa", 128, 128, 2, dtype="bfloat16", device="cuda")
    assert list(refused([of_two_heads])) == [of_two_heads]
