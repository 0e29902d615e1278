"""FLOPs of FlexAttention's operators, from the blocks that their block mask leaves.

Both operators are higher-order: functions of functions, without the schema that other operators have. A block with any
unmasked pair is computed whole, up to the ends of both sequences. `full` is the work without a mask.

The backward pass has 7 products, where other fused kernels have 5. One loop computes the gradient of the queries, and
another those of keys and values. Each loop recomputes the scores and the gradient of the weights. (Dong et al. 2024,
"Flex Attention"; the template `flex_backwards` in torch/_inductor.)
"""

from typing import Any

import torch
from torch import Tensor

from harness.trial.facts.kernels import Arguments, Kernel, Work
from harness.trial.facts.observer import Observer
from harness.trial.facts.operations import Operation

# Position of the block mask among the arguments.
_BLOCK_MASK_AT = {"flex_attention": 4, "flex_attention_backward": 9}


def arguments(operation: Operation) -> dict[str, Any]:
    """Return the arguments that the formulas need, by name."""
    query, key, value = operation.args[:3]
    block_mask = operation.args[_BLOCK_MASK_AT[operation.traits.name]]
    return {"query": query, "key": key, "value": value, "block_mask": block_mask}


def computed_pairs(block_mask: tuple[Any, ...], batch: int, heads: int, queries: int, keys: int) -> int:
    """Return the number of query-key pairs in all computed blocks, over batch and heads."""
    # Torch versions differ in what precedes the tensors (the lengths) and in what lies between tensors and sizes.
    first = next(place for place, item in enumerate(block_mask) if isinstance(item, Tensor))
    query_block, key_block = block_mask[-3], block_mask[-2]
    pairs = 0
    for number, indices in (block_mask[first : first + 2], block_mask[first + 2 : first + 4]):  # partial, full blocks
        if number is None:
            continue
        # Batches and heads that share a mask have one list: `number` is (b, h, blocks of queries), `indices`
        # (b, h, blocks of queries, blocks of keys).
        rows = _sizes(torch.arange(number.shape[2], device=number.device), query_block, queries)
        is_listed = torch.arange(indices.shape[3], device=number.device) < number[..., None]
        columns = (_sizes(indices, key_block, keys) * is_listed).sum(-1)
        shared_by = batch * heads // (number.shape[0] * number.shape[1])
        pairs += shared_by * int((rows * columns).sum())
    return pairs


def _sizes(blocks: Tensor, size: int, length: int) -> Tensor:
    """Return the length of each of these blocks of a sequence. The last one may be short."""
    return (length - blocks.long() * size).clamp(0, size)


def _work(qk: int, v: int) -> Any:
    """Return a formula: `qk` products over the query's head size and `v` products over the value's."""

    def work(call: Arguments) -> Work:
        batch, heads, queries, head_dim = call["query"].shape
        keys = call["key"].shape[2]
        each = 2 * (qk * head_dim + v * call["value"].shape[3])
        pairs = computed_pairs(call["block_mask"], batch, heads, queries, keys)
        return Work(each * pairs, each * batch * heads * queries * keys)

    return work


FLEX: dict[str, Kernel] = {
    "flex_attention": Kernel(_work(1, 1), lambda call: 3),
    # Over the query's head size: the scores twice, dQ, dK. Over the value's: the weights' gradient twice, dV.
    "flex_attention_backward": Kernel(_work(4, 3), lambda call: 4),
}


def let_observe() -> None:
    """Make torch 2.6 pass these operators to the observer. That version does not hand them to a mode by itself."""
    for name in FLEX:
        operator = getattr(torch.ops.higher_order, name)
        if Observer not in operator.python_key_table:
            operator.py_impl(Observer)(_observed(operator))


def _observed(operator: Any) -> Any:
    return lambda mode, *args, **kwargs: mode.__torch_dispatch__(operator, (), args, kwargs)
