"""FlashAttention's algorithm in plain operations: all scores are computed, but only a block of them is kept.

    softmax(Q Kᵀ / √head_dim) V   by blocks of queries and keys, with a running maximum and sum

Rabe & Staats 2021, "Self-attention Does Not Need O(n²) Memory", section 3; Dao et al. 2022, "FlashAttention",
algorithms 1 and 4.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from impls.attention.plain import ToldAttention


class BlockwiseAttention(torch.autograd.Function):
    """Exact softmax attention with at most block × block scores of a head in memory.

    `apply(q, k, v, attn_mask, later, block)` returns (b, h, n, head_dim). Keys and values are (b, h, m, head_dim).
    `attn_mask` is broadcastable to (b, h, n, m). Pass `later` (block, block), True above the diagonal, if no query may
    see a later key. Blocks entirely above the diagonal are then skipped.

    Forward, for each block i of queries over the blocks j of keys, with S_ij = Q_i K_jᵀ / √head_dim:

        m' = max(m, rowmax S_ij)    P = exp(S_ij − m')    l' = e^(m − m') l + rowsum P    O' = e^(m − m') O + P V_j

    At the end, O_i = O / l and L_i = m + log l. The backward pass computes the scores again, with P = exp(S_ij − L_i):

        dS = P ∘ (dO_i V_jᵀ − rowsum(dO_i ∘ O_i))    dV_j += Pᵀ dO_i
        dQ_i += dS K_j / √head_dim                   dK_j += dSᵀ Q_i / √head_dim

    Statistics and sums are kept in float32 or wider. The factors of products keep their dtype, as in a fused kernel.
    Only q, k, v, the masks, the output and L are saved for the backward pass.
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, later: Tensor | None, block: int
    ) -> Tensor:
        b, h, n, head_dim = q.shape
        out = q.new_empty(b, n, h, head_dim).transpose(1, 2)  # (b, h, n, head_dim), in the layout that `merge` needs
        logsumexp = q.new_empty(b * h, n, 1, dtype=_wide(q))
        scores = _Scores(q, k, attn_mask, later)
        values = v.flatten(0, 1)  # (b·h, m, head_dim)
        for rows in _blocks(n, block):
            # The lowest number instead of −∞: `kept` is then never of −∞ − (−∞).
            top = logsumexp.new_full((b * h, rows.stop - rows.start, 1), torch.finfo(logsumexp.dtype).min)
            total = torch.zeros_like(top)
            summed = top.new_zeros(b * h, rows.stop - rows.start, head_dim)
            for cols in _blocks(k.shape[2], block):
                if later is not None and cols.start >= rows.stop:
                    break
                s = scores.of(rows, cols)  # (b·h, block, block)
                before, top = top, torch.maximum(top, s.amax(-1, keepdim=True))
                weights = s.sub_(top).exp_()
                kept = (before - top).exp_()  # factor by which the weights of earlier blocks shrink
                total = total.mul_(kept).add_(weights.sum(-1, keepdim=True))
                summed = summed.mul_(kept).add_(weights.to(v.dtype) @ values[:, cols])
            out[:, :, rows] = summed.div_(total).unflatten(0, (b, h))
            logsumexp[:, rows] = total.log_().add_(top)
        ctx.save_for_backward(q, k, v, attn_mask, later, out, logsumexp)
        ctx.block = block
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, attn_mask, later, out, logsumexp = ctx.saved_tensors
        (given,) = gradients  # (b, h, n, head_dim)
        scores, row_blocks = _Scores(q, k, attn_mask, later), _blocks(q.shape[2], ctx.block)
        values, grads = v.flatten(0, 1), given.flatten(0, 1)  # (b·h, m, head_dim), (b·h, n, head_dim)
        shared = (given.to(logsumexp.dtype) * out).sum(-1, keepdim=True).flatten(0, 1)  # (b·h, n, 1)
        # Each block's sum has its own memory, so that no block waits for another.
        dq = [torch.zeros_like(grads[:, rows], dtype=logsumexp.dtype) for rows in row_blocks]
        dk, dv = torch.empty_like(scores.keys), torch.empty_like(values)
        for cols in _blocks(k.shape[2], ctx.block):
            keys_j, values_j = scores.keys[:, cols], values[:, cols]  # (b·h, block, head_dim)
            dk_j, dv_j = (torch.zeros_like(t, dtype=logsumexp.dtype) for t in (keys_j, values_j))
            for dq_i, rows in zip(dq, row_blocks, strict=True):
                if later is not None and cols.start >= rows.stop:
                    continue
                weights = scores.of(rows, cols).sub_(logsumexp[:, rows]).exp_()  # (b·h, block, block)
                ds = (grads[:, rows] @ values_j.mT - shared[:, rows]).mul_(weights).to(q.dtype)
                dv_j.add_(weights.to(v.dtype).mT @ grads[:, rows])
                dq_i.add_(ds @ keys_j, alpha=scores.scale)
                dk_j.add_(ds.mT @ scores.queries[:, rows], alpha=scores.scale)
            dk[:, cols], dv[:, cols] = dk_j, dv_j
        of_all = (torch.cat(dq, dim=1).to(q.dtype), dk, dv)
        return *(t.unflatten(0, q.shape[:2]) for t in of_all), None, None, None


class _Scores:
    """Q_i K_jᵀ / √head_dim of any two blocks, and the lowest number where a query may not see a key.

    With −∞, a query that sees no key would have the weights 0/0.
    """

    def __init__(self, q: Tensor, k: Tensor, attn_mask: Tensor | None, later: Tensor | None) -> None:
        self.queries, self.keys = q.flatten(0, 1), k.flatten(0, 1)  # (b·h, n, head_dim), (b·h, m, head_dim)
        self.heads = q.shape[:2]
        self.scale = q.shape[-1] ** -0.5
        self.hidden, self.later = None if attn_mask is None else ~attn_mask, later

    def of(self, rows: slice, cols: slice) -> Tensor:
        """Return the scores (b·h, block, block) in float32 or wider. The caller may overwrite them."""
        s = _scaled_product(self.queries[:, rows], self.keys[:, cols], self.scale).to(_wide(self.queries))
        lowest = torch.finfo(s.dtype).min
        if self.hidden is not None:
            hidden = self.hidden[..., rows if self.hidden.shape[-2] > 1 else slice(None), :]
            hidden = hidden[..., cols if self.hidden.shape[-1] > 1 else slice(None)]
            s.unflatten(0, self.heads).masked_fill_(hidden, lowest)
        if self.later is not None and rows.start == cols.start:  # the blocks on the diagonal
            s.masked_fill_(self.later[: s.shape[-2], : s.shape[-1]], lowest)
        return s


def _scaled_product(a: Tensor, b: Tensor, scale: float) -> Tensor:
    """Return a bᵀ · scale, (b·h, block, block). The scale is applied inside the product, before rounding."""
    nothing = a.new_empty(())
    return torch.baddbmm(nothing, a, b.mT, beta=0, alpha=scale)


def _blocks(length: int, block: int) -> list[slice]:
    return [slice(start, min(start + block, length)) for start in range(0, length, block)]


def _wide(tensor: Tensor) -> torch.dtype:
    return torch.promote_types(tensor.dtype, torch.float32)


class ChunkedAttention(ToldAttention):
    """(b, n, d) -> (b, n, d), in blocks of `block` queries and keys. The last block may be shorter.

    Advantage over `attention.packed`: memory grows with n instead of n², forward and backward. There are two drawbacks.
    Each query processes its blocks one after another, so depth grows with n. The backward pass computes the scores a
    second time.
    """

    axes: ClassVar[dict[str, tuple[str, int]]] = {"block": ("B", 64)}
    later: Tensor

    def __init__(self, d_model: int, num_heads: int, block: int = 64) -> None:
        super().__init__(d_model, num_heads)
        self.block = block
        # What a causal mask hides within a block on the diagonal. Built once here instead of in every call.
        self.register_buffer("later", torch.ones(block, block, dtype=torch.bool).triu(1), persistent=False)

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """Return the heads (b, h, n, head_dim), given keys and values (b, h, m, head_dim)."""
        later = self.later if is_causal else None
        heads: Tensor = BlockwiseAttention.apply(q, k, v, attn_mask, later, self.block)
        return heads  # (b, h, n, head_dim)
