"""Attention as FlexAttention: a fused kernel that the compiler writes from a formula for the mask.

    softmax(mask(Q Kᵀ / √head_dim)) V   block by block, blocks that the mask empties left out

Dong et al. 2024, "Flex Attention: A Programming Model for Generating Optimized Attention Kernels". What this rung adds
to `fused`: any mask that can be written as a function of the places of query and key, and of a block mask only the
blocks that have something in them. The block mask is made once, in `prepare`, and not on the clock; it is there even
where all may see all, since without one all keys are one block to the CPU's kernel, and its memory is n².

Only the kernel is compiled, as its users do it; the projections around it are those of every rung. Decoding is left to
`compiled`: a block mask of one query has nothing to leave out.
"""

from typing import Any

import torch
from torch import Tensor

from impls.attention.parameters import AttentionParameters

# How many keys are one block.
_BLOCK = 128
# Below it a GPU's matrix units have no tile.
_LEAST_HEAD_ON_GPU = 16


class FlexAttention(AttentionParameters):
    """(b, n, d) -> (b, n, d). The first call of each kind compiles."""

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        # Not above: in torch 2.6 its module imports the compiler, which no other layer is to wait for.
        from torch.nn.attention.flex_attention import flex_attention

        self._attend = torch.compile(flex_attention, fullgraph=True, dynamic=False)

    @staticmethod
    def supports(case: Any) -> str | None:
        """Why a case cannot be, by what flex_attention's kernels can do in torch 2.6 and newer."""
        if case.mode == "decode":
            return "it has no step of its own: attention.compiled decodes"
        if case.dtype == "float64":
            return "flex_attention's kernels sum up in float32, and take no float64"
        if case.device == "cpu" and case.mode != "forward":
            return "flex_attention has no backward pass on the CPU"
        keys = case.source_len or case.seq_len
        if case.device == "cpu" and keys < _BLOCK and keys % 16 == 8:
            # Seen in torch 2.11 and 2.13 with AVX2: each run gives other numbers, or none.
            return f"flex_attention's kernel for the CPU reads what nobody has written where there are {keys} keys"
        head_dim = case.d_model // case.num_heads
        if case.device == "cuda" and head_dim < _LEAST_HEAD_ON_GPU:
            return f"flex_attention takes heads of {_LEAST_HEAD_ON_GPU} or more on a GPU, and these are of {head_dim}"
        from torch.nn.attention import flex_attention as module

        takes = getattr(module, "_supported_head_dim", None)  # of torch 2.6, which takes powers of two
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
        """The mask as a block mask; nothing is left of it to do in `forward`."""
        return {"source": source, "block_mask": self.block_mask(x, is_causal, attn_mask, source)}

    def block_mask(self, x: Tensor, is_causal: bool, attn_mask: Tensor | None, source: Tensor | None) -> Any:
        """Which blocks of 128 queries and 128 keys have something to look at, and what in them.

        `attn_mask` is boolean and broadcastable to (b, h, n, m).
        """
        from torch.nn.attention.flex_attention import create_block_mask

        n, m = x.shape[1], (x if source is None else source).shape[1]
        if is_causal or attn_mask is None:
            rule = _before if is_causal else _all
            return create_block_mask(rule, None, None, n, m, device=str(x.device))
        # Along an axis of one all share what stands there, at place 0.
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
        if block_mask is None:  # it was not prepared
            block_mask = self.block_mask(x, is_causal, attn_mask, source)
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        return self.merge(self._attend(q, k, v, block_mask=block_mask))  # (b, n, d)


def _all(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Every token sees every other."""
    return query >= 0


def _before(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """No token sees a later one."""
    return query >= key
