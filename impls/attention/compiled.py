"""Attention layers whose first call compiles: packed attention as one program, and FlexAttention.

Ansel et al. 2024, "PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode Transformation and Graph
Compilation". Both layers call `torch.compile` with `fullgraph`, so that nothing is left to Python. With
`dynamic=False`, a program is compiled for exactly these sizes.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from impls.attention.plain import AttentionParameters, PackedAttention


class Slots(NamedTuple):
    """`keys` and `values` (b, h, n, head_dim), one slot for every token, and `position` (1,) of the next token.

    For a source, `position` is None: all slots are filled, and no token is added.
    """

    keys: Tensor
    values: Tensor
    position: Tensor | None


class CompiledAttention(PackedAttention):
    """Packed attention as one compiled program: (b, n, d) -> (b, n, d). The first call of each kind compiles.

        softmax(Q Kᵀ / √head_dim) V   over (b, h, n, head_dim)

    Differences from `attention.packed`: the whole layer is one graph. Scale, mask and softmax become one pass over the
    scores. The matrix products remain those of the library.

    If the compiler recognises the pattern, it inserts a fused kernel (torch 2.6 to 2.13 on a CPU: one sequence without
    a mask). The scores are then in memory in some cases and not in others, so the layer claims no order of memory. The
    work claims are those of the formula as written.

    Decoding uses a separate program, the same one for all positions. The position is a tensor, because a plain number
    would be compiled into the program. Each token attends to the whole cache, with empty slots masked.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self._forward = torch.compile(super().forward, fullgraph=True, dynamic=False)
        self._own_token = torch.compile(self.own_token, fullgraph=True, dynamic=False)
        self._source_token = torch.compile(self.source_token, fullgraph=True, dynamic=False)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, source: Tensor | None = None) -> Tensor:
        return self._forward(x, attn_mask, source)  # (b, n, d)

    def own_token(self, x_t: Tensor, keys: Tensor, values: Tensor, position: Tensor) -> tuple[Tensor, Tensor]:
        """Process one more token: store its key and value in their slot.

        Return the output (b, d) and the next position.
        """
        q, k, v = self.project(x_t[:, None])  # (b, h, 1, head_dim) each
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        is_there = torch.arange(keys.shape[2], device=keys.device) <= position  # (n,)
        return self.merge(self.attend(q, keys, values, is_there))[:, 0], position + 1

    def source_token(self, x_t: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Process one more token that attends to the whole source: (b, d) -> (b, d)."""
        q = self.queries(x_t[:, None])  # (b, h, 1, head_dim)
        return self.merge(self.attend(q, keys, values))[:, 0]

    def start(self, batch_size: int, seq_len: int, source: Tensor | None = None) -> Slots:  # type: ignore[override]
        """Return empty slots for `seq_len` tokens, or the filled slots of the `source` tokens if given."""
        cache = super().start(batch_size, seq_len, source)
        first = None if source is not None else torch.zeros(1, dtype=torch.long, device=cache.keys.device)
        return Slots(cache.keys, cache.values, first)

    def step(self, x_t: Tensor, slots: Slots) -> tuple[Tensor, Slots]:  # type: ignore[override]
        """Process one more token: (b, d) -> (b, d). The token attends to itself and to all tokens before it."""
        x_t = x_t.contiguous()  # one layout, one program
        if slots.position is None:
            return self._source_token(x_t, slots.keys, slots.values), slots
        y_t, following = self._own_token(x_t, slots.keys, slots.values, slots.position)
        return y_t, slots._replace(position=following)

    def prefill(self, x: Tensor, slots: Slots) -> Slots:  # type: ignore[override]
        """Put t tokens (b, t, d) into their slots at once. This is not compiled."""
        if slots.position is None:
            return slots
        k, v = self.keys_and_values(x)  # (b, h, t, head_dim) each
        places = slots.position + torch.arange(x.shape[1], device=x.device)  # (t,)
        slots.keys.index_copy_(2, places, k)
        slots.values.index_copy_(2, places, v)
        return slots._replace(position=slots.position + x.shape[1])


# FlexAttention: keys per block.
_BLOCK = 128
# The matrix units of a GPU have no tile for smaller heads.
_LEAST_HEAD_ON_GPU = 16


class FlexAttention(AttentionParameters):
    """A fused kernel, compiled for its mask: (b, n, d) -> (b, n, d). The first call of each kind compiles.

        softmax(mask(Q Kᵀ / √head_dim)) V   block by block, skipping blocks that the mask empties

    Dong et al. 2024, "Flex Attention: A Programming Model for Generating Optimized Attention Kernels". The compiler
    generates the kernel from a formula for the mask. Advantages over `attention.fused`: the mask can be any function of
    the query's and the key's position. Only blocks with unmasked pairs are computed.

    Only the kernel is compiled, as users of FlexAttention do. The projections around it are those of every attention
    layer. Decoding is left to `attention.compiled`: the block mask of a single query has nothing to skip.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        # Imported here because in torch 2.6 the module imports the compiler, which would delay all other layers.
        from torch.nn.attention.flex_attention import flex_attention

        self._attend = torch.compile(flex_attention, fullgraph=True, dynamic=False)

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why a case cannot run, or None if nothing prevents it."""
        return "it has no step of its own: attention.compiled decodes" if case.mode == "decode" else flex_refusal(case)

    def prepare(
        self,
        x: Tensor,
        is_causal: bool = False,
        attn_mask: Tensor | None = None,
        source: Tensor | None = None,
    ) -> dict[str, Any]:
        """Return the keyword arguments of `forward`, with the mask as a block mask.

        `prepare` builds the block mask once, outside the measured time. `forward` then does no mask work.
        """
        m = (x if source is None else source).shape[1]
        return {"source": source, "block_mask": flex_block_mask(x.shape[1], m, x.device, is_causal, attn_mask)}

    def forward(
        self,
        x: Tensor,
        is_causal: bool = False,
        attn_mask: Tensor | None = None,
        source: Tensor | None = None,
        block_mask: Any = None,
    ) -> Tensor:
        if block_mask is None:  # `prepare` was not called
            block_mask = self.prepare(x, is_causal, attn_mask, source)["block_mask"]
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        return self.merge(self._attend(q, k, v, block_mask=block_mask))  # (b, n, d)


def flex_refusal(case: Any) -> str | None:
    """Return why the kernels of `flex_attention` (torch 2.6 and newer) cannot run a case, or None if they can."""
    if case.dtype == "float64":
        return "flex_attention's kernels sum up in float32, and take no float64"
    if case.device == "cpu" and case.mode in ("train", "backward"):
        return "flex_attention has no backward pass on the CPU"
    keys = case.kv_len or case.seq_len
    if case.device == "cpu" and keys < _BLOCK and keys % 16 == 8:
        # Observed in torch 2.11 and 2.13 with AVX2: each run gives different numbers, or none.
        return f"flex_attention's kernel for the CPU reads uninitialised memory with {keys} keys"
    head_dim = case.d_model // case.num_heads
    if case.device == "cuda" and head_dim < _LEAST_HEAD_ON_GPU:
        return f"flex_attention takes heads of {_LEAST_HEAD_ON_GPU} or more on a GPU, and these are of {head_dim}"
    from torch.nn.attention import flex_attention as module

    takes = getattr(module, "_supported_head_dim", None)  # exists in torch 2.6, which takes powers of two
    if takes is not None and not takes(head_dim):
        return f"flex_attention of torch {torch.__version__} takes no heads of {head_dim}"
    return None


def flex_block_mask(n: int, m: int, device: torch.device, is_causal: bool, attn_mask: Tensor | None) -> Any:
    """Return the block mask: the blocks of 128 queries and 128 keys with unmasked pairs, and these pairs.

    `attn_mask` is boolean and broadcastable to (b, h, n, m). A block mask is built even if nothing is masked.
    Without one, the CPU kernel treats all keys as one block, and its memory is n².
    """
    from torch.nn.attention.flex_attention import create_block_mask

    if is_causal or attn_mask is None:
        rule = _before if is_causal else _all
        return create_block_mask(rule, None, None, n, m, device=str(device))
    # An axis of size 1 is shared by all: its index is always 0.
    b, h, rows = (int(size > 1) for size in attn_mask.shape[:3])

    def seen(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return attn_mask[batch * b, head * h, query * rows, key]

    return create_block_mask(seen, attn_mask.shape[0], attn_mask.shape[1], n, m, device=str(device))


def _all(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Every token sees every other."""
    return query >= 0


def _before(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """No token sees a later one."""
    return query >= key
