"""Torch's own `nn.MultiheadAttention`, the most common implementation of multi-head attention.

    MultiHead(x) = Concat(head_1 … head_h) W_o,   head_i = softmax(Q_i K_iᵀ / √head_dim) V_i

Vaswani et al. 2017, section 3.2.2. The computation depends on how the module is called:

- By default, the attention weights are returned. The module computes them from plain products and averages them over
  the heads.
- Without weights, it runs one opaque operator if it can. This requires eval mode, an even number of heads, no
  gradients, and neither a float mask nor a source. On the CPU, the operator writes the scores to memory although they
  are unused.
- In all other cases, it calls `scaled_dot_product_attention` and lets torch choose the kernel.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn


class ModuleAttention(nn.MultiheadAttention):
    """(b, n, d) -> (b, n, d). The other attention layers take the names of their weights from this module."""

    need_weights: ClassVar[bool] = False

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads, batch_first=True)
        # Not zero: a layer that drops a bias must fail verification.
        nn.init.normal_(self.in_proj_bias, std=0.02)
        nn.init.normal_(self.out_proj.bias, std=0.02)

    def prepare(
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False, source: Tensor | None = None
    ) -> dict[str, Any]:
        """Convert the masks to the module's own kinds, which are −∞ where a query may *not* see a key.

        The masks are float tensors to be added to the scores. From a boolean mask, the module would build a float mask
        in every call.
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

    def forward(  # type: ignore[override]  # the module's own method takes queries, keys and values separately
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        source: Tensor | None = None,
        pairs: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Tensor:
        """Run the module. `pairs` and `keys` are the masks from `prepare`, computed here if missing."""
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
        """Return the weights of each head, as the module itself reports them: (b, n, d) -> (b, h, n, n).

        Rows sum to 1.
        """
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
    """The same, returning the weights as by default. They are computed, averaged over the heads, and dropped."""

    need_weights = True


def _added(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where a query may see a key and −∞ elsewhere."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, float("-inf"))
