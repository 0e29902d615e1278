"""The flash-attn adapter against a package that registers the operators of the real one."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from adapters.pretended import check_layout, install, later, take_on_the_cpu
from torch import Tensor

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import trace_call
from harness.core.trial.verify import verify
from harness.core.trial.workload import build
from impls.adapters.entries import ADAPTERS
from impls.adapters.packages import FlashAttention
from impls.registry import IMPLS

NAME = "attention.flash_attn"
# As flash-attn 2.8 has them.
FORWARD = (
    "_flash_attn_forward(Tensor q, Tensor k, Tensor v, float dropout_p, float softmax_scale, bool causal, "
    "SymInt window_size_left, SymInt window_size_right, float softcap, Tensor? alibi_slopes, bool return_softmax)"
    " -> (Tensor, Tensor, Tensor, Tensor)"
)
BACKWARD = (
    "_flash_attn_backward(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor softmax_lse, "
    "Tensor(a6!)? dq, Tensor(a7!)? dk, Tensor(a8!)? dv, float dropout_p, float softmax_scale, bool causal, "
    "SymInt window_size_left, SymInt window_size_right, float softcap, Tensor? alibi_slopes, bool deterministic, "
    "Tensor? rng_state=None) -> Tensor"
)


def scores(q: Tensor, k: Tensor, scale: float, causal: bool) -> Tensor:
    found = torch.einsum("bihe,bjhe->bhij", q, k) * scale
    return found.masked_fill(later(q.shape[1], k.shape[1]), float("-inf")) if causal else found


def forward(q: Tensor, k: Tensor, v: Tensor, dropout_p: float, scale: float, causal: bool, *rest: Any) -> Any:
    assert rest == (-1, -1, 0.0, None, False)
    found = scores(q, k, scale, causal)
    out = torch.einsum("bhij,bjhe->bihe", found.softmax(-1), v)
    return out, found.logsumexp(-1), q.new_empty(0), torch.zeros(2, dtype=torch.int64)


def backward(dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *rest: Any) -> Tensor:
    dq, dk, dv, _, scale, causal = rest[:6]
    weights = (scores(q, k, scale, causal) - lse[..., None]).exp()
    dv.copy_(torch.einsum("bhij,bihe->bjhe", weights, dout))
    delta = (dout * out).sum(-1).transpose(1, 2)
    d_scores = weights * (torch.einsum("bihe,bjhe->bhij", dout, v) - delta[..., None]) * scale
    dq.copy_(torch.einsum("bhij,bjhe->bihe", d_scores, k))
    dk.copy_(torch.einsum("bhij,bihe->bjhe", d_scores, q))
    return delta


class Func(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> Tensor:
        op = torch.ops.flash_attn._flash_attn_forward
        named = {"window_size_left": -1, "window_size_right": -1, "softcap": 0.0}
        out, lse, _, _ = op(q, k, v, 0.0, scale, causal=causal, **named, alibi_slopes=None, return_softmax=False)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.scale, ctx.causal = scale, causal
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> Any:
        q, k, v, out, lse = ctx.saved_tensors
        grads = [torch.empty_like(tensor) for tensor in (q, k, v)]
        torch.ops.flash_attn._flash_attn_backward(
            dout, q, k, v, out, lse, *grads, 0.0, ctx.scale, ctx.causal, -1, -1, 0.0, None, False
        )
        return *grads, None, None


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
) -> Tensor:
    check_layout(q, k, v)
    assert dropout_p == 0.0
    return Func.apply(q, k, v, softmax_scale or q.shape[-1] ** -0.5, causal)


@pytest.fixture(autouse=True)
def _flash_attn(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    install(monkeypatch, "flash_attn", flash_attn_func=flash_attn_func)
    take_on_the_cpu(monkeypatch, FlashAttention)
    monkeypatch.setitem(IMPLS, NAME, next(impl for impl in ADAPTERS if impl.name == NAME))
    with torch.library._scoped_library("flash_attn", "FRAGMENT") as library:
        for schema, function in ((FORWARD, forward), (BACKWARD, backward)):
            library.define(schema)
            library.impl(schema.partition("(")[0], function, "CPU")
        yield


@pytest.mark.parametrize("mode", ["forward", "train", "backward"])
@pytest.mark.parametrize("given", [{}, {"mask": "causal"}, {"kv_len": 9}], ids=str)
def test_it_computes_attention(mode: str, given: dict[str, Any]) -> None:
    verify(Case(NAME, 21, 24, 3, batch_size=2, mode=mode, dtype="float64", **given), seed=0)


@pytest.mark.parametrize("kv_len", [0, 9])
def test_it_decodes(kv_len: int) -> None:
    case = Case(NAME, 21, 24, 3, mode="decode", dtype="float64", mask="causal", kv_len=kv_len)
    verify(case if not kv_len else Case(**{**case.as_dict(), "mask": "none"}), seed=0)


@pytest.mark.parametrize("mode", ["forward", "train", "backward", "decode"])
def test_its_operators_do_what_it_claims(mode: str) -> None:
    seen = trace_call(build(Case(NAME, 20, 32, 4, batch_size=3, mode=mode), seed=0))
    claim = layer_lookup.work_of(layer_lookup.claims_of_impl(NAME), mode)
    assert claim is not None
    assert seen.flops.work is not None
    assert seen.flops.work.flops == 3 * claim(n=20, d=32, h=4)
    assert (seen.flops.unknown, seen.flops.undeclared) == ([], [])


def test_under_a_causal_mask_it_counts_what_the_mask_leaves() -> None:
    flops = {}
    for mask in ("none", "causal"):
        for mode in ("forward", "train"):
            torch.set_grad_enabled(True)
            work = trace_call(build(Case(NAME, 20, 32, 4, mask=mask, mode=mode), seed=0)).flops.work
            assert work is not None
            flops[mask, mode] = work.flops
    hidden = 20 * 19 // 2
    assert flops["none", "forward"] - flops["causal", "forward"] == 4 * hidden * 32
    assert flops["none", "train"] - flops["causal", "train"] == 14 * hidden * 32
