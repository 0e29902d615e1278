"""Without its package, or on what it cannot do, an adapter says so and breaks nothing."""

import sys

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.trial.workload import Unsupported, build
from impls.adapters.entries import ADAPTERS
from impls.registry import IMPLS
from impls.registry_entry import Impl

PROJECTS = {
    "attention.flash_attn": "flash-attn",
    "attention.xformers": "xformers",
    "attention.linear.fla": "flash-linear-attention",
}


@pytest.fixture(params=ADAPTERS, ids=lambda impl: impl.name)
def impl(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Impl:
    """An adapter whose package is not installed."""
    adapter: Impl = request.param
    monkeypatch.setitem(sys.modules, adapter.package, None)
    monkeypatch.setitem(IMPLS, adapter.name, adapter)
    return adapter


def refused(impl: Impl, d_model: int = 32, **changed: object) -> str:
    with pytest.raises(Unsupported) as refusal:
        build(Case(impl.name, 16, d_model, 4, **{"device": "cuda", "dtype": "bfloat16", **changed}), seed=0)
    return str(refusal.value)


def test_it_says_what_to_install(impl: Impl) -> None:
    project = PROJECTS[impl.name]
    assert refused(impl) == f"{project} is not installed: pip install {project}"


def test_on_the_cpu_it_says_that_it_needs_a_gpu_and_what_to_install_there(impl: Impl) -> None:
    project = PROJECTS[impl.name]
    assert refused(impl, device="cpu") == f"{project} computes on device=cuda alone; there, first pip install {project}"


def test_it_names_the_precisions_that_there_are(impl: Impl) -> None:
    assert refused(impl, dtype="float64").endswith("float16 or bfloat16, not in float64")


@pytest.mark.parametrize(
    ("name", "changed", "reason"),
    [
        ("attention.flash_attn", {"d_model": 2048}, "flash-attn has heads of 256 at most, not 512"),
        ("attention.flash_attn", {"mask": "padding"}, "flash_attn_func takes no padding mask"),
        ("attention.flash_attn", {"dtype": "float32"}, "flash-attn computes in float16 or bfloat16, not in float32"),
        ("attention.xformers", {"d_model": 48}, "xformers has heads of a multiple of 8 in bfloat16, not of 12"),
        (
            "attention.xformers",
            {"mask": "padding"},
            "its padding masks are of sequences laid end to end, which is another layout",
        ),
        ("attention.linear.fla", {"d_model": 20}, "its kernels take heads of an even size, not of 5"),
        ("attention.linear.fla", {"kv_len": 9}, "its forward takes no source"),
    ],
)
def test_it_refuses_in_a_line_what_its_kernels_cannot_do(
    monkeypatch: pytest.MonkeyPatch, name: str, changed: dict[str, object], reason: str
) -> None:
    adapter = next(impl for impl in ADAPTERS if impl.name == name)
    monkeypatch.setitem(IMPLS, name, adapter)
    if "kv_len" in changed:
        monkeypatch.setattr("impls.adapters.packages.find_spec", lambda package: package)
    assert refused(adapter, **changed) == reason
