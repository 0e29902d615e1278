"""The kernels of `kernel_table.py` as functions: one for each set of inputs, with the kernel's name as an argument.

    o_t = S_tᵀ q_t / √head_dim,   S_t = γ_t S_{t−1} + k_t v_tᵀ                       linear attention, retention, GLA
    o_t = S_tᵀ q_t / √head_dim,   S_t = γ_t (I − β_t k_t k_tᵀ) S_{t−1} + β_t k_t v_tᵀ     delta rule, gated or not

Yang & Zhang 2024, "FLA: A Triton-Based Library for Hardware-Efficient Implementations of Linear Attention". Its kernels
bypass torch's dispatcher, so their work cannot be observed, and none is claimed. Gates are in logarithms.

A measurement downloads nothing: a kernel of the Hub must have been loaded once before.
"""

import importlib
import inspect
import os
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, normalize

from impls.adapters.kernel_table import KERNELS, VERSION
from impls.adapters.packages import refusal

_LARGEST_HEAD = 256
# What `get_kernel` raises offline for a kernel that the cache lacks, depending on the package's version.
_NOT_LOADED = (ValueError, FileNotFoundError, ConnectionError)


@cache
def find(name: str) -> Any:
    """Return the kernel. Raises one of `_NOT_LOADED` if it is on the Hub and was not loaded once before."""
    kernel = KERNELS[name]
    if kernel.is_on_hub:
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # read when the package is imported
        return getattr(importlib.import_module("kernels").get_kernel(kernel.source, version=VERSION), kernel.function)
    function = getattr(importlib.import_module(kernel.source), kernel.function)
    head_first = inspect.signature(function).parameters.get("head_first")
    if head_first is not None and head_first.default is True:
        raise RuntimeError(
            "this release of flash-linear-attention takes heads first: pip install -U flash-linear-attention"
        )
    return function


@cache  # a process tries many sizes of a case, and the package logs each attempt
def is_loaded(name: str) -> bool:
    """Whether a kernel of the Hub can be used offline."""
    try:
        find(name)
    except _NOT_LOADED:
        return False
    return True


def supports(case: Any) -> str | None:
    """Return why a case cannot run, or None. A GPU only, float16 or bfloat16, and what the kernel's line says."""
    kernel, head_dim = KERNELS[case.impl], case.d_model // case.num_heads
    if kernel.is_on_hub and head_dim > _LARGEST_HEAD:
        return f"flash attention has heads of {_LARGEST_HEAD} at most, not {head_dim}"
    if not kernel.is_on_hub and case.seq_len < case.num_heads:
        return "its kernels take at least as many tokens as heads"
    if not kernel.trains and case.mode in ("train", "backward"):
        return "the package has no backward pass of this operation"
    # In float32, Triton silently rounds the factors of a product to 10 bits, which is no longer float32.
    reason = refusal(case, kernel.package, kernel.project, ("float16", "bfloat16"))
    if reason is None and torch.cuda.is_available() and torch.cuda.get_device_capability() < kernel.capability:
        reason = "its kernel needs a GPU of compute capability {}.{} or more".format(*kernel.capability)
    if reason is None and kernel.is_on_hub and not is_loaded(case.impl):
        reason = f'its kernel is not loaded: python -c "from kernels import get_kernel; {kernel.load_call}"'
    return reason


def _call(name: str, q: Tensor, k: Tensor, v: Tensor, *gates: Tensor, **keywords: Any) -> Any:
    kernel = KERNELS[name]
    return find(name)(q, k, v, **dict(zip(kernel.gates, gates, strict=True)), **kernel.keywords, **keywords)


def softmax(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, kernel: str = "") -> Any:
    """Softmax attention: (b, n, h, head_dim), with k and v (b, m, g, head_dim).

    softmax(Q Kᵀ / √head_dim) V
    """
    return _call(kernel, q, k, v, causal=is_causal)


def softmax_heads_first(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False, kernel: str = "") -> Any:
    """The same of (b, h, n, head_dim), with k and v (b, g, m, head_dim).

    softmax(Q Kᵀ / √head_dim) V
    """
    return _call(kernel, q, k, v, causal=is_causal)


def ungated(q: Tensor, k: Tensor, v: Tensor, kernel: str = "") -> Any:
    """A recurrence of q, k and v alone: (b, n, h, head_dim) each."""
    return _call(kernel, q, k, v)


def head_gate(q: Tensor, k: Tensor, v: Tensor, g: Tensor, kernel: str = "") -> Any:
    """A recurrence with log γ (b, n, h) in `g`: (b, n, h, head_dim)."""
    return _call(kernel, q, k, v, g)


def channel_gate(q: Tensor, k: Tensor, v: Tensor, g: Tensor, kernel: str = "") -> Any:
    """A recurrence with log γ (b, n, h, head_dim) in `g`: (b, n, h, head_dim)."""
    return _call(kernel, q, k, v, g)


def delta(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, kernel: str = "") -> Any:
    """The delta rule with β (b, n, h), for queries and keys of length 1: (b, n, h, head_dim)."""
    return _call(kernel, q, k, v, beta)


def gated_delta(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, kernel: str = "") -> Any:
    """The delta rule with β and log γ (b, n, h), for queries and keys of length 1: (b, n, h, head_dim)."""
    return _call(kernel, q, k, v, g, beta)


def log_decay(*shape: int) -> Tensor:
    """Draw log γ."""
    return logsigmoid(torch.randn(*shape))


def strength(*shape: int) -> Tensor:
    """Draw β, how much of the old value a new one replaces."""
    return torch.randn(*shape).sigmoid()


def recurrence(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None = None, beta: Tensor | None = None) -> Tensor:
    """Reference: the recurrence, token after token, with log γ in `g`: (b, n, h, head_dim).

    The delta rule takes queries and keys of length 1.
    """
    decay = torch.ones_like(q) if g is None else (g if g.dim() == 4 else g[..., None]).exp().expand_as(q)
    if beta is not None:
        q, k = normalize(q, dim=-1), normalize(k, dim=-1)
    state, outputs = q.new_zeros(*q[:, 0].shape, v.shape[-1]), []
    for t in range(q.shape[1]):
        state = decay[:, t, :, :, None] * state  # (b, h, head_dim, head_dim)
        value = v[:, t]  # (b, h, head_dim)
        if beta is not None:
            value = beta[:, t, :, None] * (value - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
        state = state + k[:, t, :, :, None] * value[:, :, None]
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(outputs, 1) / q.shape[-1] ** 0.5


def linear_recurrence(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
    """Reference: the recurrence without the delta rule, of the tokens in `rows` alone if they are given.

    `rows` ascend. Between two of them, the keys decay at once: S_r = γ_{p+1} ⋯ γ_r S_p + Σ_s (γ_{s+1} ⋯ γ_r k_s) v_sᵀ.
    The products are exponentials of sums of log γ in float64, none above 0, so that nothing overflows.
    """
    if rows is None:
        return recurrence(q, k, v, g)
    logs = torch.zeros_like(q) if g is None else (g if g.dim() == 4 else g[..., None]).expand_as(q)
    state, outputs, start = q.new_zeros(*q[:, 0].shape, v.shape[-1]), [], 0
    for row in rows.tolist():
        part = slice(start, row + 1)
        sums = logs[:, part].double().cumsum(1)  # (b, s, h, head_dim)
        kept = (sums[:, -1:] - sums).exp().to(q.dtype)
        state = sums[:, -1, :, :, None].exp().to(q.dtype) * state  # (b, h, head_dim, head_dim)
        state = state + torch.einsum("bshk,bshv->bhkv", kept * k[:, part], v[:, part])
        outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, row]))
        start = row + 1
    return torch.stack(outputs, 1) / q.shape[-1] ** 0.5


def retention(q: Tensor, k: Tensor, v: Tensor, rows: Tensor | None = None) -> Tensor:
    """Reference: a fixed decay for each head, γ_h = 1 − 2^(−5−h). (b, n, h, head_dim) each.

    Sun et al. 2023, "Retentive Network", equation 8.
    """
    powers = torch.arange(q.shape[2], dtype=q.dtype, device=q.device)
    return linear_recurrence(q, k, v, (1 - 2 ** (-5 - powers)).log().expand(q.shape[:3]), rows)


# Attributes that describe the functions to the harness.
_SHAPES = dict.fromkeys("qkv", "b n h D")
_LOG_DECAY = {"shape": "b n h", "fill": log_decay}
_STRENGTH = {"shape": "b n h", "fill": strength}
softmax.layout = "bnhd"  # type: ignore[attr-defined]
ungated.inputs = _SHAPES  # type: ignore[attr-defined]
head_gate.inputs = {**_SHAPES, "g": _LOG_DECAY}  # type: ignore[attr-defined]
channel_gate.inputs = {**_SHAPES, "g": {"shape": "b n h D", "fill": log_decay}}  # type: ignore[attr-defined]
delta.inputs = {**_SHAPES, "beta": _STRENGTH}  # type: ignore[attr-defined]
gated_delta.inputs = {**_SHAPES, "g": _LOG_DECAY, "beta": _STRENGTH}  # type: ignore[attr-defined]
ungated.causal = head_gate.causal = channel_gate.causal = delta.causal = gated_delta.causal = True  # type: ignore[attr-defined]
softmax.supports = softmax_heads_first.supports = supports  # type: ignore[attr-defined]
ungated.supports = head_gate.supports = channel_gate.supports = supports  # type: ignore[attr-defined]
delta.supports = gated_delta.supports = supports  # type: ignore[attr-defined]
