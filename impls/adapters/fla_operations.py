"""Operations of the flash-linear-attention package, without projections: queries, keys, values and gates side by side.

    o_t = S_tᵀ q_t / √head_dim,   S_t = γ_t S_{t−1} + k_t v_tᵀ                       linear attention, retention, GLA
    o_t = S_tᵀ q_t / √head_dim,   S_t = γ_t (I − β_t k_t k_tᵀ) S_{t−1} + β_t k_t v_tᵀ     delta rule, gated or not

Yang & Zhang 2024, "FLA: A Triton-Based Library for Hardware-Efficient Implementations of Linear Attention". The
operations take (b, n, h, head_dim), and gates in logarithms, which are drawn from the last block of the input.
"""

import importlib
import inspect
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, normalize

from impls.adapters.packages import refusal
from impls.attention.plain import head_dim_of


@dataclass(frozen=True)
class Operation:
    """One operation: its module below `fla.ops`, and how it is called.

    - `gates`: the parameters that take a gate. `kind`: what the operation computes, see `Recurrence`.
    - `keywords`: further arguments. `trains`: whether it has a backward pass.
    """

    module: str
    kind: str
    gates: tuple[str, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)
    trains: bool = True


_UNIT = {"use_qk_l2norm_in_kernel": True}
OPERATIONS = {
    **{f"{form}_linear_attn": Operation("linear_attn", "linear_attn", (), {"normalize": False})
       for form in ("chunk", "fused_recurrent")},
    **{f"{form}_retention": Operation("retention", "retention") for form in ("chunk", "parallel", "fused_recurrent")},
    **{f"{form}_simple_gla": Operation("simple_gla", "simple_gla", ("g",))
       for form in ("chunk", "parallel", "fused_recurrent")},
    "chunk_gla": Operation("gla", "gla", ("g",)),
    "fused_recurrent_gla": Operation("gla", "gla", ("gk",)),
    **{f"{form}_delta_rule": Operation("delta_rule", "delta_rule", ("beta",), _UNIT)
       for form in ("chunk", "fused_recurrent")},
    "chunk_gated_delta_rule": Operation("gated_delta_rule", "gated_delta_rule", ("g", "beta"), _UNIT),
    "fused_recurrent_gated_delta_rule": Operation(
        "gated_delta_rule", "gated_delta_rule", ("g", "beta"), _UNIT, trains=False
    ),
}  # fmt: skip


class PackedGates(nn.Module):
    """Base of the operations and their reference: (b, n, 4d) -> (b, n, d), the fourth block for gates.

    Raises ValueError if `num_heads` does not divide `d_model`.
    """

    causal = True
    input_width = 4

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim_of(d_model, num_heads)

    def unpack(self, x: Tensor, kind: str) -> tuple[Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Return q, k, v (b, n, h, head_dim), and the gates of this kind by name: log γ in `g`, and β in `beta`.

        γ is of each channel for `gla` (b, n, h, head_dim), and of each head otherwise (b, n, h).
        """
        q, k, v, drawn = x.unflatten(-1, (4, self.num_heads, self.head_dim)).unbind(2)
        gates = {}
        if kind == "gla":
            gates["g"] = logsigmoid(drawn)
        elif kind in ("simple_gla", "gated_delta_rule"):
            gates["g"] = logsigmoid(drawn[..., 0])
        if kind in ("delta_rule", "gated_delta_rule"):
            gates["beta"] = drawn[..., -1].sigmoid()
        return q, k, v, gates


class FlaOperation(PackedGates):
    """One of `OPERATIONS`, by its name in the package: (b, n, 4d) -> (b, n, d).

    Its kernels bypass torch's dispatcher, so their work cannot be observed, and none is claimed.
    """

    def __init__(self, d_model: int, num_heads: int, operation: str) -> None:
        super().__init__(d_model, num_heads)
        self.operation = OPERATIONS[operation]
        self.function = getattr(importlib.import_module(f"fla.ops.{self.operation.module}"), operation)
        head_first = inspect.signature(self.function).parameters.get("head_first")
        if head_first is not None and head_first.default is True:
            raise RuntimeError(
                "this release of flash-linear-attention takes heads first: pip install -U flash-linear-attention"
            )

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why a case cannot run, or None if nothing prevents it."""
        if case.seq_len < case.num_heads:
            return "its kernels take at least as many tokens as heads"
        # In float32, Triton silently rounds the factors of a product to 10 bits, which is no longer float32.
        return refusal(case, "fla", "flash-linear-attention", ("float16", "bfloat16"))

    def forward(self, x: Tensor) -> Tensor:
        of = self.operation
        q, k, v, gates = self.unpack(x, of.kind)
        given = dict(zip(of.gates, gates.values(), strict=True))
        heads: Tensor = self.function(q, k, v, **given, **of.keywords)[0]  # (b, n, h, head_dim)
        return heads.flatten(2)  # (b, n, d)


class ForwardOnly(FlaOperation):
    """An operation without a backward pass: (b, n, 4d) -> (b, n, d)."""

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why a case cannot run, or None if nothing prevents it. The operation has no backward pass."""
        if case.mode in ("train", "backward"):
            return "the package has no backward pass of this operation"
        return FlaOperation.supports(case)


class Recurrence(PackedGates):
    """Reference: the recurrence, token after token: (b, n, 4d) -> (b, n, d).

    `kind` is the operation's name without its form. Retention has a fixed decay for each head, γ_h = 1 − 2^(−5−h): Sun
    et al. 2023, "Retentive Network", equation 8. The delta rule takes queries and keys of length 1.
    """

    def __init__(self, d_model: int, num_heads: int, kind: str) -> None:
        super().__init__(d_model, num_heads)
        self.kind = kind

    def forward(self, x: Tensor) -> Tensor:
        q, k, v, gates = self.unpack(x, self.kind)
        decay, beta = torch.ones_like(q), torch.ones_like(q[..., :1])
        if self.kind == "retention":
            powers = torch.arange(self.num_heads, dtype=x.dtype, device=x.device)
            decay = decay * (1 - 2 ** (-5 - powers))[:, None]
        if "g" in gates:
            log = gates["g"] if self.kind == "gla" else gates["g"][..., None]
            decay = log.exp() * decay  # (b, n, h, head_dim)
        if "beta" in gates:
            q, k, beta = normalize(q, dim=-1), normalize(k, dim=-1), gates["beta"][..., None]  # beta (b, n, h, 1)
        state, outputs = x.new_zeros(*q[:, 0].shape, self.head_dim), []
        for t in range(x.shape[1]):
            state = decay[:, t, :, :, None] * state  # (b, h, head_dim, head_dim)
            value = v[:, t]  # (b, h, head_dim)
            if "beta" in gates:
                value = beta[:, t] * (value - torch.einsum("bhkv,bhk->bhv", state, k[:, t]))
            state = state + k[:, t, :, :, None] * value[:, :, None]
            outputs.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
        return torch.stack(outputs, 1).flatten(2) / self.head_dim**0.5  # (b, n, d)
