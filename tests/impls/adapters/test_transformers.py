"""Attention functions of transformers: found by their keys, and measured as functions of q, k and v."""

import sys
from collections.abc import Iterator, MutableMapping
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from adapters.pretended import install
from compilers import needs_cxx
from torch import Tensor

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.trial.compilation import preload_compiler
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.layer_protocol import load, unsupported_reason
from harness.core.trial.verify import verify
from impls.adapters import transformers_functions
from impls.adapters.entries import TRANSFORMERS

NAMES = [impl.name for impl in TRANSFORMERS]
EAGER, SDPA, FLEX = NAMES
CASES: list[dict[str, Any]] = [
    {"mode": "train"},
    {"mode": "train", "mask": "causal", "num_kv_heads": 2},
    {"mode": "train", "mask": "padding", "padding_fraction": 0.5},
    {"mode": "train", "kv_len": 9},
    {"mode": "train", "options": "sliding_window=3"},
    {"mode": "train", "mask": "causal", "options": "sliding_window=5"},
    {"mask": "padding", "lengths": "zipf", "options": "sliding_window=4"},
    {"mode": "decode", "mask": "causal", "num_kv_heads": 2},
    {"mode": "decode", "kv_len": 9},
    {"mode": "decode", "options": "sliding_window=5"},
]


def scores_of(module: Any, query: Tensor, key: Tensor, mask: Tensor | None, scaling: float) -> Tensor:
    scores = query @ key.repeat_interleave(module.num_key_value_groups, 1).transpose(2, 3) * scaling
    if mask is None and module.is_causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    return scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)


def by_mask(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float,
    dropout: float,
) -> tuple[Tensor, None]:
    weights = scores_of(module, query, key, attention_mask, scaling).softmax(-1)
    return (weights @ value.repeat_interleave(module.num_key_value_groups, 1)).transpose(1, 2), None


def by_window(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool = True,
    sliding_window: int | None = None,
    **keywords: Any,
) -> tuple[Tensor, None]:
    """It makes its own mask from `is_causal` and `sliding_window`, as flash kernels do."""
    assert scaling is not None
    assert is_causal is module.is_causal
    allowed = transformers_functions.visible(query, key, attention_mask, is_causal, sliding_window or 0)
    return by_mask(module, query, key, value, allowed, scaling, dropout)


def eager_attention_forward(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, scaling: float, **_: Any
) -> tuple[Tensor, Tensor]:
    scores = scores_of(module, query, key, None, scaling)
    weights = (scores if attention_mask is None else scores + attention_mask).softmax(-1)
    return (weights @ value.repeat_interleave(module.num_key_value_groups, 1)).transpose(1, 2), weights


class Interface(MutableMapping):
    """`AttentionInterface`: every instance shows all functions that were registered."""

    functions: ClassVar[dict[str, Any]] = {}

    def __getitem__(self, key: str) -> Any:
        return self.functions[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.functions[key] = value

    def __delitem__(self, key: str) -> None:
        del self.functions[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def get_interface(self, key: str, default: Any) -> Any:
        return self.functions.get(key, default)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A package with the interface of transformers, in which a user's module registered functions."""
    monkeypatch.setattr(Interface, "functions", {"by_mask": by_mask, "by_window": by_window, "sdpa": by_mask})
    llama = "transformers.models.llama.modeling_llama"
    install(monkeypatch, llama, eager_attention_forward=eager_attention_forward)
    monkeypatch.setattr(sys.modules["transformers"], "AttentionInterface", Interface, raising=False)
    monkeypatch.setattr(transformers_functions, "_interface", transformers_functions._interface.__wrapped__)
    monkeypatch.setitem(sys.modules, "registering", SimpleNamespace(Functions=Interface, __name__="registering"))
    return sys.modules["transformers"]


@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("given", CASES, ids=str)
@pytest.mark.parametrize("impl", [EAGER, SDPA, "registering:Functions.by_mask", "registering:Functions.by_window"])
def test_a_function_is_softmax_attention_in_all_that_functions_can_do(impl: str, given: dict[str, Any]) -> None:
    found = verify(Case(impl, 13, 32, 4, batch_size=2, dtype="float64", **given), seed=0)
    assert found["against"] == "model_attention"


def test_the_layers_call_what_is_registered_under_their_keys(registry: ModuleType) -> None:
    registry.AttentionInterface()["sdpa"] = lambda *given, **keywords: (0 * by_mask(*given, **keywords)[0], None)
    with pytest.raises(Exception, match="output is off by 1"):
        verify(Case(SDPA, 8, 32, 4), seed=0)


@pytest.mark.usefixtures("registry")
def test_an_unknown_key_gets_those_that_there_are() -> None:
    with pytest.raises(AttributeError, match=r"has no 'Functions\.other'; it has by_mask, by_window, sdpa"):
        layer_lookup.load_class("registering:Functions.other")


@pytest.mark.parametrize("name", NAMES)
def test_without_the_package_it_says_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    reason = unsupported_reason(load(name), Case(name, 16, 32, 4))
    assert reason == "transformers is not installed: pip install transformers"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"options": "sliding_window=3", "kv_len": 9}, "a window is over the layer's own tokens: leave kv_len out"),
        (
            {"options": "sliding_window=3", "mode": "decode", "mask": "padding", "padding_fraction": 0.5},
            "a window counts back from the last token, which may be padding here: leave sliding_window out",
        ),
    ],
)
def test_what_has_no_meaning_is_refused_in_a_line(given: dict[str, Any], reason: str) -> None:
    assert unsupported_reason(layer_lookup.load_class(SDPA), Case(SDPA, 16, 32, 4, **given)) == reason


@pytest.mark.slow  # importing it takes seconds
@pytest.mark.parametrize("given", CASES, ids=str)
@pytest.mark.parametrize("name", [EAGER, SDPA, "transformers:AttentionInterface.sdpa"])
def test_functions_of_the_package_are_softmax_attention(name: str, given: dict[str, Any]) -> None:
    pytest.importorskip("transformers", reason="pip install transformers")
    verify(Case(name, 16, 32, 4, batch_size=2, **given), seed=0)


@pytest.mark.slow  # importing it takes seconds
@pytest.mark.parametrize("num_kv_heads", [0, 2])
@pytest.mark.parametrize("mode", ["forward", "train", "decode"])
@pytest.mark.parametrize("name", [EAGER, SDPA])
def test_its_exact_flops_equal_the_claim(name: str, mode: str, num_kv_heads: int) -> None:
    pytest.importorskip("transformers", reason="pip install transformers")
    facts = collect_metrics(Case(name, 16, 32, 4, mode=mode, num_kv_heads=num_kv_heads), seed=0)
    assert facts["flops"] == facts["flops_claimed"] > 0


@pytest.mark.slow
def test_a_flash_function_of_the_package_names_the_layers_to_measure_instead() -> None:
    pytest.importorskip("transformers", reason="pip install transformers")
    impl = "transformers:AttentionInterface.flash_attention_2"
    reason = unsupported_reason(layer_lookup.load_class(impl), Case(impl, 16, 32, 4))
    assert reason == "it reads in a model's config which kernel to load: measure sdpa.hub.* or attention.flash_attn"


@needs_cxx
@pytest.mark.slow  # it compiles
@pytest.mark.parametrize(
    "given",
    [{}, {"mask": "causal", "num_kv_heads": 1, "options": "sliding_window=20"}, {"mode": "decode"}],
    ids=str,
)
def test_its_flex_attention_is_softmax_attention(given: dict[str, Any]) -> None:
    pytest.importorskip("transformers", reason="pip install transformers")
    preload_compiler("cpu")  # as a fork server does: torch's compiler warns when it is imported
    assert verify(Case(FLEX, 128, 32, 2, **given), seed=0)["against"] == "model_attention"


def test_flex_attention_has_no_backward_pass_on_the_cpu() -> None:
    reason = unsupported_reason(layer_lookup.load_class(FLEX), Case(FLEX, 128, 32, 2, mode="train"))
    assert reason == "flex_attention has no backward pass on the CPU"
