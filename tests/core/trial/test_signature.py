"""A class that cannot be built or called as a layer is found by its signature, with a wrapper to write."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.cli.commands import main
from harness.core.layers import layer_lookup
from harness.core.trial.layer_protocol import check_signature
from harness.core.trial.trial_kinds import outcome_of_exception
from impls.registry import IMPLS


class Plain: ...


class Dim(nn.Module):
    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x


class Unnamed(Dim):
    def __init__(self, size_of_it: int) -> None:
        super().__init__(size_of_it, 1)


class NoArguments(Dim):
    def __init__(self) -> None:
        super().__init__(1, 1)


class Layer(nn.Module):
    def __init__(self, d_model: int) -> None:
        super().__init__()


class Kernel(Layer):
    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return q


class TwoInputs(Layer):
    def forward(self, x: Tensor, scale: float) -> Tensor:
        return x


class MoreNeeded(Layer):
    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__(d_model)

    def forward(self, x: Tensor) -> Tensor:
        return x


WRAP = "is built otherwise. Wrap it: class My"
MISTAKES = {
    Plain: "Plain is not a torch.nn.Module: write class Plain(torch.nn.Module) with forward(self, x)",
    Dim: f"Dim(dim, heads) {WRAP}Dim(Dim): def __init__(self, d_model, num_heads): "
    "super().__init__(dim=d_model, heads=num_heads)",
    nn.Linear: f"Linear(in_features, out_features) {WRAP}Linear(Linear): def __init__(self, d_model): "
    "super().__init__(in_features=d_model, out_features=d_model)",
    Unnamed: f"Unnamed(size_of_it) {WRAP}Unnamed(Unnamed): def __init__(self, d_model): super().__init__(size_of_it=…)",
    NoArguments: f"NoArguments() {WRAP}NoArguments(NoArguments): def __init__(self, d_model): super().__init__()",
    MoreNeeded: "MoreNeeded is built as MoreNeeded(d_model=…, num_heads=…): give dropout a default",
    Layer: "Layer has no forward: write forward(self, x), (b, n, d) -> (b, n, d)",
    Kernel: "forward(q, k, v) takes three inputs, and a layer gets one. Wrap it: input_width = 3; "
    "def forward(self, x): q, k, v = x.chunk(3, dim=-1), each (b, n, d)",
    nn.GRU: f"GRU(input_size, hidden_size) {WRAP}GRU(GRU): def __init__(self, d_model): "
    "super().__init__(input_size=d_model, hidden_size=d_model, batch_first=True); "
    "def forward(self, x): return super().forward(x)[0]",
    nn.TransformerEncoderLayer: "TransformerEncoderLayer(d_model, nhead) is built otherwise. Wrap it: class "
    "MyTransformerEncoderLayer(TransformerEncoderLayer): def __init__(self, d_model, num_heads): "
    "super().__init__(d_model=d_model, nhead=num_heads, batch_first=True)",
    TwoInputs: "forward(x, scale) is called as forward(x): give all other parameters a default",
}


@pytest.mark.parametrize("layer_class", MISTAKES, ids=lambda one: one.__name__)
def test_a_signature_that_no_layer_has_gets_a_wrapper(layer_class: type) -> None:
    with pytest.raises(TypeError) as caught:
        check_signature(layer_class)
    assert str(caught.value) == MISTAKES[layer_class]
    assert MISTAKES[layer_class] in outcome_of_exception(caught.value)["reason"]  # not cut off


@pytest.mark.parametrize("layer_class", [nn.LSTM, nn.GRU, nn.RNN, nn.TransformerEncoderLayer])
def test_what_is_to_be_written_around_a_class_of_torch_is_a_layer(layer_class: type) -> None:
    with pytest.raises(TypeError) as caught:
        check_signature(layer_class)
    written = str(caught.value).partition("Wrap it: ")[2].replace("; ", "\n ").replace("): def", "):\n def", 1)
    made: dict[str, Any] = {}
    exec(written, {layer_class.__name__: layer_class}, made)
    (wrapper,) = made.values()
    check_signature(wrapper)
    sizes = {"num_heads": 2} if "nhead" in written else {}
    assert wrapper(d_model=8, **sizes)(torch.ones(2, 3, 8)).shape == (2, 3, 8)


class Good(Layer):
    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        return x


class OverASource(Layer):
    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        return x


class AnyArguments(nn.Module):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()

    def forward(self, *inputs: Tensor) -> Tensor:
        return inputs[0]


class Prepared(Layer):
    def prepare(self, x: Tensor) -> dict[str, Any]:
        return {"scale": 2.0}

    def forward(self, x: Tensor, scale: float) -> Tensor:
        return x


@pytest.mark.parametrize("layer_class", [Good, OverASource, AnyArguments, Prepared])
def test_other_signatures_pass(layer_class: type) -> None:
    check_signature(layer_class)


def test_the_layers_of_the_project_pass() -> None:
    for name in IMPLS:
        check_signature(layer_lookup.load_class(name), layer_lookup.build_options(name))


@pytest.mark.usefixtures("forked_servers")
def test_a_dry_run_names_the_mistake_and_exits_as_a_sweep_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    impls = ",".join(f"{__file__}:{name}" for name in ("Plain", "Dim", "Kernel"))
    sizes = ["seq_len=64", "d_model=64", "num_heads=4"]
    assert main(["sweep", "--dry-run", f"impl={impls}", *sizes]) == 3
    printed = " ".join(capsys.readouterr().out.split())
    for layer_class in (Plain, Dim, Kernel):
        assert f"TypeError: {MISTAKES[layer_class]}" in printed
    assert main(["sweep", "--dry-run", f"impl={__file__}:Good,{__file__}:Plain", *sizes]) == 3
    assert main(["sweep", "--dry-run", f"impl={__file__}:Good", *sizes]) == 0
