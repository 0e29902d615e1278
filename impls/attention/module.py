"""Torch's own module: `nn.MultiheadAttention`, as most people meet multi-head attention.

    MultiHead(x) = Concat(head_1 … head_h) W_o,   head_i = softmax(Q_i K_iᵀ / √head_dim) V_i

Vaswani et al. 2017, section 3.2.2. What it does depends on how it is called. Without gradients, in eval mode, without a
float mask or a source, and with an even number of heads it runs one opaque operator, which on the CPU writes the
scores to memory even where nobody wants the weights; else `scaled_dot_product_attention` of torch's own choosing. Asked
for the weights, which is its default, it computes them from plain products and averages them over the heads.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn


class ModuleAttention(nn.MultiheadAttention):
    """(b, n, d) -> (b, n, d). The weights carry the names of all our attention rungs, which have them from here."""

    need_weights: ClassVar[bool] = False

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads, batch_first=True)
        # Not zero: a rung that drops a bias must not pass for a right one.
        nn.init.normal_(self.in_proj_bias, std=0.02)
        nn.init.normal_(self.out_proj.bias, std=0.02)

    def prepare(
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False, source: Tensor | None = None
    ) -> dict[str, Any]:
        """The module's own kinds of mask, which are turned the other way round: −∞ where a query may *not* look.

        They are made as numbers to be added. Of a boolean one it would make such a one itself, in every call.
        """
        given: dict[str, Any] = {} if source is None else {"source": source}
        if is_causal:
            seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
            return given | {"pairs": _added(seen, x.dtype), "is_causal": True}  # (n, n)
        if attn_mask is None:
            return given
        b, m = x.shape[0], (x if source is None else source).shape[1]
        if attn_mask.shape[1] == attn_mask.shape[2] == 1:
            return given | {"keys": _added(attn_mask[:, 0, 0].expand(b, m), x.dtype)}  # (b, m)
        if attn_mask.shape[0] == attn_mask.shape[1] == 1:
            return given | {"pairs": _added(attn_mask[0, 0].expand(x.shape[1], m), x.dtype)}  # (n, m)
        by_head = attn_mask.expand(b, self.num_heads, x.shape[1], m).flatten(0, 1)
        return given | {"pairs": _added(by_head, x.dtype)}  # (b·h, n, m)

    def forward(  # type: ignore[override]  # the module's own takes queries, keys and values apart
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        source: Tensor | None = None,
        pairs: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Tensor:
        """`pairs` and `keys` are what `prepare` makes of `attn_mask` and `is_causal`, here if nobody has before."""
        if pairs is None and keys is None and (is_causal or attn_mask is not None):
            return self(x, **self.prepare(x, attn_mask, is_causal, source))
        source = x if source is None else source  # (b, m, d)
        y: Tensor = super().forward(
            x,
            source,
            source,
            key_padding_mask=keys,
            need_weights=self.need_weights,
            attn_mask=pairs,
            is_causal=is_causal,
        )[0]
        return y  # (b, n, d)

    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """The weights of each head, as the module itself tells them: (b, n, d) -> (b, h, n, n), rows sum to 1."""
        masks = self.prepare(x, attn_mask)
        weights = super().forward(
            x,
            x,
            x,
            key_padding_mask=masks.get("keys"),
            attn_mask=masks.get("pairs"),
            need_weights=True,
            average_attn_weights=False,
        )[1]
        assert weights is not None
        return weights  # (b, h, n, n)


class ModuleAttentionWithWeights(ModuleAttention):
    """The same, asked for its weights as it is by default. They are computed, averaged over the heads, and dropped."""

    need_weights = True


def _added(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a query may look, −∞ where not."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, float("-inf"))
