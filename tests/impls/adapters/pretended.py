"""Packages that are not there: modules with the functions that they document, computed with plain torch."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor


def install(monkeypatch: pytest.MonkeyPatch, name: str, **functions: Any) -> None:
    """`import name` finds a module with these functions, and its parents, until the test ends."""
    parts = name.split(".")
    for depth in range(1, len(parts) + 1):
        path = ".".join(parts[:depth])
        module = ModuleType(path)
        module.__spec__ = ModuleSpec(path, loader=None)
        monkeypatch.setitem(sys.modules, path, module)
    for function_name, function in functions.items():
        setattr(sys.modules[name], function_name, function)


def take_on_the_cpu(monkeypatch: pytest.MonkeyPatch, *layer_classes: Any) -> None:
    """The layers have no reason against any case, as if the CPU were a GPU."""
    for layer_class in layer_classes:
        monkeypatch.setattr(layer_class, "supports", staticmethod(lambda case: None))


def check_layout(q: Tensor, k: Tensor, v: Tensor) -> None:
    """(b, n, h, head_dim) of queries, (b, m, h, head_dim) of keys and values, head_dim without gaps."""
    assert q.dim() == k.dim() == v.dim() == 4
    assert (q.shape[0], *q.shape[2:]) == (k.shape[0], *k.shape[2:])
    assert k.shape == v.shape
    assert q.stride(-1) == k.stride(-1) == v.stride(-1) == 1


def later(n: int, m: int) -> Tensor:
    """(n, m), True for keys behind the query, the last query being level with the last key."""
    return torch.ones(n, m, dtype=torch.bool).triu(m - n + 1)
