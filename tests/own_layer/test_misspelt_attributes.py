"""Attributes that the harness would ignore because their names are misspelt."""

import functools
from pathlib import Path

import pytest

from harness.core.layers.layer_files import OF_CLASSES, OF_FUNCTIONS, misspelt
from harness.core.layers.layer_lookup import load_class
from harness.core.model.sweep_axes import Case
from harness.core.trial import layer_protocol
from harness.core.trial.described_layer import describe_layer
from harness.core.trial.layer_protocol import check_attributes
from impls.registry import IMPLS

FILE = """
from functools import partial, wraps

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


def f(q, k, v, window=4):
    return scaled_dot_product_attention(q, k, v)


def timed(function):
    @wraps(function)
    def wrapper(q, k, v):
        return function(q, k, v)

    wrapper.calls = 0
    return wrapper


class Called:
    claim = {}

    def __call__(self, q, k, v):
        return f(q, k, v)

    def layouts(self):
        return "bnhd"


class Layer(nn.Module):
    {body}

    def __init__(self, d_model):
        super().__init__()

    def forward(self, x):
        return x


{lines}
"""
MISSPELT = [
    ("f.claim = {'work': '4n²d'}", "f.claim", "claims"),
    ("f.axis = {'window': ('w', 4)}", "f.axis", "axes"),
    ("f.layouts = 'bnhd'", "f.layouts", "layout"),
    ("f.input = dict.fromkeys('qkv', 'b n h D')", "f.input", "inputs"),
    ("f.references = f", "f.references", "reference"),
    ("f.referense = None", "f.referense", "reference"),
    ("f.allowed_eror = 1", "f.allowed_eror", "allowed_error"),
    ("f.casual = True", "f.casual", "causal"),
    ("f.support = lambda case: None", "f.support", "supports"),
    ("f.claim = {}; f = timed(f)", "f.claim", "claims"),
    ("f = Called()", "Called.claim", "claims"),
    ("f = partial(f, window=2); f.layout_ = 'bnhd'", "f.layout_", "layout"),
    ("f.claim = {}; f = torch.compile(f, backend='eager')", "f.claim", "claims"),
]
RIGHT = [
    "f.window, f.name, f.forward, f.version = 4, 'mine', f, '1.0'",
    "f.kernel, f.axis, f.output_, f._claim = f, 1, None, {}",
    "f.claims = {'work': '4n²d'}; f = timed(f)",
    "f.claims, f.claim = {}, {}",
    "f = scaled_dot_product_attention",
    "f = torch.compile(f, backend='eager')",
    "f = nn.MultiheadAttention(8, 2)",
]


def described(tmp_path: Path, name: str, lines: str = "", body: str = "pass") -> str | None:
    file = tmp_path / f"mine_{name}.py"
    file.write_text(FILE.replace("{lines}", lines).replace("{body}", body))
    refused: str | None = describe_layer(Case(f"{file}:{name}", 16, 16, 2))["refused"]
    return refused


@pytest.mark.parametrize(("lines", "found", "meant"), MISSPELT)
def test_a_misspelt_attribute_of_a_function_is_refused(tmp_path: Path, lines: str, found: str, meant: str) -> None:
    assert described(tmp_path, "f", lines) == f"{found} is not read; did you mean '{meant}'?"


@pytest.mark.parametrize("body", ["claim = {'work': '2nd²'}", "casual = True", "kernals = {}", "input_widht = 3"])
def test_a_misspelt_attribute_of_a_class_is_refused(tmp_path: Path, body: str) -> None:
    assert "is not read; did you mean '" in (described(tmp_path, "Layer", body=body) or "")
    assert "Sub.claim is not read" in (described(tmp_path, "Sub", "class Sub(Layer):\n    claim = {}") or "")


@pytest.mark.parametrize("lines", RIGHT)
def test_other_attributes_of_a_function_are_its_own(tmp_path: Path, lines: str) -> None:
    assert described(tmp_path, "f", lines) is None


def test_other_attributes_and_methods_of_a_class_are_its_own(tmp_path: Path) -> None:
    body = "kernel, axis, decode, layouts, input, references = 'gaussian', 1, True, 'bnhd', {}, lambda self: 4"
    assert described(tmp_path, "Layer", body=body) is None


def test_no_attribute_of_a_layer_of_the_project_or_of_torch_is_misspelt() -> None:
    for name, impl in IMPLS.items():
        if not impl.package:
            check_attributes(load_class(name))
    check_attributes(load_class("torch.nn:MultiheadAttention"))
    assert not misspelt({name: {} for name in OF_CLASSES}, OF_CLASSES)


def test_a_function_in_c_has_no_attributes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_protocol, "is_of_user", lambda module: module == "_operator")
    check_attributes(load_class("_operator:inv"))


def test_an_attribute_that_wraps_sets_is_no_misspelt_one() -> None:
    wrapped = functools.wraps(print)(lambda: None)
    assert vars(wrapped)
    assert not misspelt(vars(wrapped), OF_FUNCTIONS)
