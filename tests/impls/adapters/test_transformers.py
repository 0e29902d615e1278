"""Attention functions of transformers as layers: refused without the package, and correct with it."""

import sys

import pytest

from harness.sweep_axes import Case
from harness.trial.layer_protocol import unsupported_reason
from harness.trial.verify import verify
from impls.adapters.entries import TRANSFORMERS
from impls.adapters.transformers_functions import TransformersFunction

NAMES = [impl.name for impl in TRANSFORMERS]


@pytest.mark.parametrize("name", NAMES)
def test_without_the_package_it_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    reason = unsupported_reason(TransformersFunction, Case(name, 16, 32, 4))
    assert reason == "transformers is not installed: pip install transformers"


@pytest.mark.slow  # importing it takes seconds
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("mask", ["none", "causal", "padding"])
@pytest.mark.parametrize("name", NAMES)
def test_it_is_softmax_attention_under_every_mask(name: str, mask: str) -> None:
    pytest.importorskip("transformers", reason="pip install transformers")
    case = Case(name, 16, 32, 4, batch_size=2, mode="train", mask=mask, padding_fraction=0.5 * (mask == "padding"))
    assert verify(case, seed=0)["against"] == "SdpaReference"
