"""FlexAttention's work by its blocks, against counting pairs one by one."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from harness.core.trial.counts.flops import FLEX, Flops, computed_pairs, make_observable
from harness.core.trial.counts.opaque_kernels import Work
from harness.core.trial.counts.operations import Observer, Storages

B, H, HEAD = 2, 3, 8


def causal(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return q >= k


def banded(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (q - k).abs() < 20 * (b + 1)


def blocks_of(mask: Any, queries: int, keys: int, block: int, batches: int | None = None) -> BlockMask:
    return create_block_mask(mask, batches, None, queries, keys, device="cpu", BLOCK_SIZE=block)


@pytest.mark.parametrize(("queries", "keys", "block"), [(64, 64, 16), (50, 50, 16), (33, 70, 16), (5, 5, 128)])
@pytest.mark.parametrize(("mask", "batches"), [(causal, None), (banded, B)])
def test_a_block_with_anything_to_see_counts_whole_up_to_the_ends_of_the_sequences(
    mask: Any, batches: int | None, queries: int, keys: int, block: int
) -> None:
    b, q, k = torch.arange(B)[:, None, None], torch.arange(queries)[:, None], torch.arange(keys)
    seen = mask(b, None, q, k).expand(B, queries, keys)
    by_hand = 0
    for rows in seen.split(block, dim=1):
        by_hand += sum(H * part[0].numel() for part in _parts(rows, block) if part.any())
    assert computed_pairs(blocks_of(mask, queries, keys, block, batches).as_tuple(), B, H, queries, keys) == by_hand


def _parts(rows: Tensor, block: int) -> list[Tensor]:
    return [part for of_batch in rows for part in of_batch[None].split(block, dim=2)]


def call(queries: int, keys: int, block_mask: BlockMask) -> tuple[Any, ...]:
    q, k = torch.randn(B, H, queries, HEAD), torch.randn(B, H, keys, HEAD)

    def as_it_is(score: Tensor, *_: Tensor) -> Tensor:
        return score

    return q, k, torch.randn_like(k), as_it_is, block_mask.as_tuple(), 1.0, {"OUTPUT_LOGSUMEXP": False}


def test_the_operator_is_seen_and_counted() -> None:
    make_observable()
    flops, arguments = Flops(), call(40, 40, blocks_of(causal, 40, 40, 16))
    with torch.no_grad(), Observer(Storages(), [flops.add]) as observer:
        torch.ops.higher_order.flex_attention(*arguments)
    pairs = B * H * (16 * 16 + 16 * 32 + 8 * 40)
    assert flops.work == Work(4 * HEAD * pairs, 4 * HEAD * B * H * 40 * 40)
    assert len(observer.seen) == 1


def test_its_backward_pass_has_seven_products() -> None:
    q, k, v, _, block_mask, _, _ = call(40, 40, blocks_of(causal, 40, 40, 16))
    arguments = {"query": q, "key": k, "value": v, "block_mask": block_mask}
    forward, backward = (FLEX[name].work(arguments) for name in ("flex_attention", "flex_attention_backward"))
    assert backward == Work(7 * forward.flops // 2, 7 * forward.full // 2)


def test_uncompiled_flex_attention_computes_every_pair() -> None:
    make_observable()
    flops, arguments = Flops(ran=["aten::_safe_softmax"]), call(40, 40, blocks_of(causal, 40, 40, 16))
    with torch.no_grad(), Observer(Storages(), [flops.add]):
        torch.ops.higher_order.flex_attention(*arguments)
    assert flops.flex_is_dense
    assert flops.work == Work(4 * HEAD * B * H * 40 * 40, 4 * HEAD * B * H * 40 * 40)


def test_beside_the_slowest_path_of_sdpa_nobody_knows_whether_flex_attention_was_compiled() -> None:
    make_observable()
    flops, arguments = Flops(ran=["aten::_safe_softmax"]), call(40, 40, blocks_of(causal, 40, 40, 16))
    with torch.no_grad(), Observer(Storages(), [flops.add]):
        torch.ops.higher_order.flex_attention(*arguments)
        torch.ops.aten._safe_softmax(arguments[0], -1)
    assert flops.work is None
    assert flops.unknown == ["flex_attention"]
