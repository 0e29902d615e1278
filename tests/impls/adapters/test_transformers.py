"""Attention functions of transformers as layers: refused without the package, and correct with it."""

import sys

import pytest
from compilers import needs_cxx

from harness.sweep_axes import Case
from harness.trial.compilation import preload_compiler
from harness.trial.layer_protocol import unsupported_reason
from harness.trial.metrics.collect import collect_metrics
from harness.trial.verify import verify
from impls.adapters.entries import TRANSFORMERS
from impls.adapters.transformers_functions import TransformersFlex, TransformersFunction

NAMES = [impl.name for impl in TRANSFORMERS]
FLEX = "sdpa.transformers.flex"


@pytest.mark.parametrize("name", NAMES)
def test_without_the_package_it_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    layer_class = TransformersFlex if name == FLEX else TransformersFunction
    reason = unsupported_reason(layer_class, Case(name, 16, 32, 4))
    assert reason == "transformers is not installed: pip install transformers"


@pytest.mark.slow  # importing it takes seconds
@pytest.mark.parametrize("mask", ["none", "causal", "padding"])
@pytest.mark.parametrize("name", [name for name in NAMES if name != FLEX])
def test_it_is_softmax_attention_under_every_mask(name: str, mask: str) -> None:
    pytest.importorskip("transformers", reason="pip install transformers")
    case = Case(name, 16, 32, 4, batch_size=2, mode="train", mask=mask, padding_fraction=0.5 * (mask == "padding"))
    assert verify(case, seed=0)["against"] == "SdpaReference"


@pytest.mark.slow  # importing it takes seconds
@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize("name", [name for name in NAMES if name != FLEX])
def test_its_exact_flops_equal_the_claim(name: str, mode: str) -> None:
    pytest.importorskip("transformers", reason="pip install transformers")
    facts = collect_metrics(Case(name, 16, 32, 4, mode=mode), seed=0)
    assert facts["flops"] == facts["flops_claimed"] > 0


@needs_cxx
@pytest.mark.slow  # it compiles
@pytest.mark.parametrize("mask", ["none", "causal"])
def test_its_flex_attention_is_softmax_attention(mask: str) -> None:
    pytest.importorskip("transformers", reason="pip install transformers")
    preload_compiler("cpu")  # as a fork server does: torch's compiler warns when it is imported
    assert verify(Case(FLEX, 128, 32, 2, mask=mask), seed=0)["against"] == "SdpaReference"


def test_flex_attention_has_no_backward_pass_on_the_cpu() -> None:
    reason = unsupported_reason(TransformersFlex, Case(FLEX, 128, 32, 2, mode="train"))
    assert reason == "flex_attention has no backward pass on the CPU"
