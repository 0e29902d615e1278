"""The flash-linear-attention adapter against a package that computes what the real one documents."""

import pytest
import torch
from adapters.pretended import check_layout, install, take_on_the_cpu
from torch import Tensor

from harness.core.model.sweep_axes import Case
from harness.core.trial.verify import verify
from impls.adapters.entries import ADAPTERS
from impls.adapters.packages import FlaLinearAttention
from impls.registry import IMPLS

NAME = "attention.linear.fla"


def chunk_linear_attn(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    normalize: bool = True,
) -> tuple[Tensor, Tensor | None]:
    check_layout(q, k, v)
    scale = scale or q.shape[-1] ** -0.5
    scores = torch.einsum("bihe,bjhe->bhij", q, k).tril() * scale
    out = torch.einsum("bhij,bjhe->bihe", scores, v)
    if initial_state is not None:
        out = out + torch.einsum("bihe,bhef->bihf", q, initial_state) * scale
    if normalize:
        assert initial_state is None
        out = out / ((q * scale * k.cumsum(1)).sum(-1, keepdim=True) + 1e-10)
    final = torch.einsum("bjhe,bjhf->bhef", k, v) + (0 if initial_state is None else initial_state)
    return out, final if output_final_state else None


def fused_recurrent_linear_attn(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    reverse: bool = False,
    normalize: bool = False,
) -> tuple[Tensor, Tensor | None]:
    assert not reverse
    return chunk_linear_attn(q, k, v, scale, initial_state, output_final_state, normalize)


@pytest.fixture(autouse=True)
def _fla(monkeypatch: pytest.MonkeyPatch) -> None:
    functions = {
        "chunk_linear_attn": chunk_linear_attn,
        "fused_recurrent_linear_attn": fused_recurrent_linear_attn,
    }
    install(monkeypatch, "fla.ops.linear_attn", **functions)
    take_on_the_cpu(monkeypatch, FlaLinearAttention)
    monkeypatch.setitem(IMPLS, NAME, next(impl for impl in ADAPTERS if impl.name == NAME))


@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
@pytest.mark.parametrize("mask", ["none", "causal", "padding"])
def test_it_computes_linear_attention(mode: str, mask: str) -> None:
    share = 0.5 if mask == "padding" else 0.0
    verify(Case(NAME, 21, 24, 3, batch_size=2, mode=mode, mask=mask, padding_fraction=share), seed=0)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_it_decodes(dtype: str) -> None:
    verify(Case(NAME, 21, 24, 3, mode="decode", mask="causal", dtype=dtype), seed=0)
