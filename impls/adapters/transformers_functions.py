"""Attention functions of the transformers package, as its models call them: queries, keys and values lie side by side.

    f(module, q, k, v, mask, scaling) -> (b, n, h, head_dim),   softmax(Q Kᵀ · scaling) V

transformers lets a model choose its attention by name (`AttentionInterface`). The functions take (b, h, n, head_dim),
and a mask that is added to the scores, or boolean.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from impls.attention.compiled import FlexAttention, flex_block_mask
from impls.sdpa.layers import PackedInput


def function_named(name: str) -> Callable[..., Any]:
    """Return the function `eager`, `sdpa` or `flex`. Each model repeats the same eager function."""
    if name == "eager":
        from transformers.models.llama.modeling_llama import eager_attention_forward

        return eager_attention_forward
    if name == "flex":
        from transformers.integrations.flex_attention import flex_attention_forward

        return flex_attention_forward
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    return sdpa_attention_forward


class TransformersFunction(PackedInput):
    """One of the functions, by its name in transformers: (b, n, 3d) -> (b, n, d).

        softmax(Q Kᵀ / √head_dim) V

    The function looks up how many query heads share a key, and whether it is causal, in the module that calls it.
    """

    num_key_value_groups = 1
    is_causal = False

    def __init__(self, d_model: int, num_heads: int, function: str) -> None:
        super().__init__(d_model, num_heads)
        self.function = function_named(function)
        self.adds_mask = function == "eager"

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why a case cannot run, or None if nothing prevents it."""
        return None if find_spec("transformers") else "transformers is not installed: pip install transformers"

    def prepare(self, x: Tensor, attn_mask: Tensor | None = None) -> dict[str, Tensor]:
        """Return the mask as the function takes it. Models make it once for all layers."""
        if attn_mask is None or not self.adds_mask:
            return {} if attn_mask is None else {"attn_mask": attn_mask}
        added = torch.zeros(attn_mask.shape, dtype=x.dtype, device=x.device)
        return {"attn_mask": added.masked_fill_(~attn_mask, torch.finfo(x.dtype).min)}

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        q, k, v = self.unpack(x)  # (b, h, n, head_dim) each
        heads: Tensor = self.function(self, q, k, v, attn_mask, scaling=self.head_dim**-0.5)[0]  # (b, n, h, head_dim)
        return heads.flatten(2)  # (b, n, d)


class TransformersFlex(TransformersFunction):
    """The function of FlexAttention, which transformers compiles at its first call: (b, n, 3d) -> (b, n, d).

    softmax(mask(Q Kᵀ / √head_dim)) V   block by block, skipping blocks that the mask empties
    """

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why a case cannot run, or None if nothing prevents it. The CPU's kernel has no backward pass."""
        return FlexAttention.supports(case) or TransformersFunction.supports(case)

    def prepare(self, x: Tensor, attn_mask: Tensor | None = None) -> dict[str, Any]:
        """Return the block mask, which models make once for all layers."""
        return {"attn_mask": flex_block_mask(x, False, attn_mask, None)}
