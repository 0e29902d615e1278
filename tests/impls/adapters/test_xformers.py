"""The xformers adapter against a package that computes what the real one documents."""

from typing import Any

import pytest
import torch
from adapters.pretended import check_layout, install, later, take_on_the_cpu
from torch import Tensor

from harness.core.model.sweep_axes import Case
from harness.core.trial.verify import verify
from impls.adapters.entries import ADAPTERS
from impls.adapters.packages import XformersAttention
from impls.registry import IMPLS

NAME = "attention.xformers"


class LowerTriangularMask:
    pass


def memory_efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | LowerTriangularMask | None = None,
    p: float = 0.0,
    scale: float | None = None,
    *,
    op: Any = None,
) -> Tensor:
    check_layout(query, key, value)
    assert attn_bias is None or isinstance(attn_bias, LowerTriangularMask)
    scores = torch.einsum("bihe,bjhe->bhij", query, key) * (scale or query.shape[-1] ** -0.5)
    if attn_bias is not None:
        assert query.shape == key.shape
        scores = scores.masked_fill(later(query.shape[1], key.shape[1]), float("-inf"))
    return torch.einsum("bhij,bjhe->bihe", scores.softmax(-1), value)


@pytest.fixture(autouse=True)
def _xformers(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = {"memory_efficient_attention": memory_efficient_attention, "LowerTriangularMask": LowerTriangularMask}
    install(monkeypatch, "xformers.ops", **functions)
    take_on_the_cpu(monkeypatch, XformersAttention)
    monkeypatch.setitem(IMPLS, NAME, next(impl for impl in ADAPTERS if impl.name == NAME))


@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
@pytest.mark.parametrize("given", [{}, {"mask": "causal"}, {"kv_len": 9}], ids=str)
def test_it_computes_attention(mode: str, given: dict[str, Any]) -> None:
    verify(Case(NAME, 21, 24, 3, batch_size=2, mode=mode, dtype="float64", **given), seed=0)


@pytest.mark.parametrize("given", [{"mask": "causal"}, {"kv_len": 9}], ids=str)
def test_it_decodes(given: dict[str, Any]) -> None:
    verify(Case(NAME, 21, 24, 3, mode="decode", dtype="float64", **given), seed=0)
