"""FlexAttention: a fused kernel that the compiler generates from a formula for the mask.

    softmax(mask(Q Kᵀ / √head_dim)) V   block by block, skipping blocks that the mask empties

Dong et al. 2024, "Flex Attention: A Programming Model for Generating Optimized Attention Kernels". Advantages over
`fused`: the mask can be any function of the query's and the key's position. Only blocks with unmasked pairs are
computed.

`prepare` builds the block mask once, outside the measured time. A block mask is built even if nothing is masked.
Without one, the CPU kernel treats all keys as one block, and its memory is n².

Only the kernel is compiled, as users of FlexAttention do. The projections around it are those of every attention layer.
Decoding is left to `compiled`: the block mask of a single query has nothing to skip.
"""

from typing import Any

import torch
from torch import Tensor

from impls.attention.parameters import AttentionParameters

# Keys per block.
_BLOCK = 128
# The matrix units of a GPU have no tile for smaller heads.
_LEAST_HEAD_ON_GPU = 16


class FlexAttention(AttentionParameters):
    """(b, n, d) -> (b, n, d). The first call of each kind compiles."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        # Imported here because in torch 2.6 the module imports the compiler, which would delay all other layers.
        from torch.nn.attention.flex_attention import flex_attention

        self._attend = torch.compile(flex_attention, fullgraph=True, dynamic=False)

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the kernels of `flex_attention` (torch 2.6 and newer) cannot run the case, or None if they can."""
        if case.mode == "decode":
            return "it has no step of its own: attention.compiled decodes"
        if case.dtype == "float64":
            return "flex_attention's kernels sum up in float32, and take no float64"
        if case.device == "cpu" and case.mode != "forward":
            return "flex_attention has no backward pass on the CPU"
        keys = case.source_len or case.seq_len
        if case.device == "cpu" and keys < _BLOCK and keys % 16 == 8:
            # Observed in torch 2.11 and 2.13 with AVX2: each run gives different numbers, or none.
            return f"flex_attention's kernel for the CPU reads what nobody has written where there are {keys} keys"
        head_dim = case.d_model // case.num_heads
        if case.device == "cuda" and head_dim < _LEAST_HEAD_ON_GPU:
            return f"flex_attention takes heads of {_LEAST_HEAD_ON_GPU} or more on a GPU, and these are of {head_dim}"
        from torch.nn.attention import flex_attention as module

        takes = getattr(module, "_supported_head_dim", None)  # exists in torch 2.6, which takes powers of two
        if takes is not None and not takes(head_dim):
            return f"flex_attention of torch {torch.__version__} takes no heads of {head_dim}"
        return None

    def prepare(
        self,
        x: Tensor,
        is_causal: bool = False,
        attn_mask: Tensor | None = None,
        source: Tensor | None = None,
    ) -> dict[str, Any]:
        """Return the keyword arguments of `forward`, with the mask as a block mask.

        `forward` then does no mask work.
        """
        return {"source": source, "block_mask": self.block_mask(x, is_causal, attn_mask, source)}

    def block_mask(self, x: Tensor, is_causal: bool, attn_mask: Tensor | None, source: Tensor | None) -> Any:
        """Return the block mask: the blocks of 128 queries and 128 keys with unmasked pairs, and these pairs.

        `attn_mask` is boolean and broadcastable to (b, h, n, m).
        """
        from torch.nn.attention.flex_attention import create_block_mask

        n, m = x.shape[1], (x if source is None else source).shape[1]
        if is_causal or attn_mask is None:
            rule = _before if is_causal else _all
            return create_block_mask(rule, None, None, n, m, device=str(x.device))
        # An axis of size 1 is shared by all: its index is always 0.
        b, h, rows = (int(size > 1) for size in attn_mask.shape[:3])

        def seen(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return attn_mask[batch * b, head * h, query * rows, key]

        return create_block_mask(seen, attn_mask.shape[0], attn_mask.shape[1], n, m, device=str(x.device))

    def forward(
        self,
        x: Tensor,
        is_causal: bool = False,
        attn_mask: Tensor | None = None,
        source: Tensor | None = None,
        block_mask: Any = None,
    ) -> Tensor:
        if block_mask is None:  # `prepare` was not called
            block_mask = self.block_mask(x, is_causal, attn_mask, source)
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        return self.merge(self._attend(q, k, v, block_mask=block_mask))  # (b, n, d)


def _all(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Every token sees every other."""
    return query >= 0


def _before(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """No token sees a later one."""
    return query >= key
