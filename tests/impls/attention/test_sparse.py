"""A window with global tokens, and block-sparse attention: who sees whom."""

from typing import Any

import pytest
import torch

from impls.attention.block_sparse import BlockSparseAttention, BlockSparseReference, blocks_seen, random_blocks
from impls.attention.global_window import GlobalWindowAttention, GlobalWindowReference
from impls.attention.window import WindowAttention

D, H = 12, 3


def seen_pairs(layer: torch.nn.Module, n: int, **said: Any) -> torch.Tensor:
    """Which tokens reach which outputs, (n, n), by their gradients."""
    x = torch.randn(1, n, D, dtype=torch.float64, requires_grad=True)
    y = layer(x, **said)
    reach = [torch.autograd.grad(y[0, i].sum(), x, retain_graph=True)[0][0].norm(dim=-1) for i in range(n)]
    return torch.stack(reach) > 0


def test_every_token_sees_its_window_and_the_global_tokens_and_these_see_all() -> None:
    layer = GlobalWindowAttention(D, H, reach=2, global_tokens=3).double()
    i = torch.arange(20)
    near, of_all = (i - i[:, None]).abs() <= 2, (i < 3) | (i[:, None] < 3)
    assert torch.equal(seen_pairs(layer, 20), near | of_all)
    assert torch.equal(seen_pairs(layer, 20, is_causal=True), (near | of_all).tril())


def test_every_block_sees_its_neighbours_the_first_block_and_its_random_ones() -> None:
    layer = BlockSparseAttention(D, H, block=2).double()
    block = torch.arange(23) // 2
    by_block = torch.tensor([[j in blocks_seen(int(i), 12) or i == 0 for j in block] for i in block])
    assert torch.equal(seen_pairs(layer, 23), by_block)
    assert torch.equal(seen_pairs(layer, 23, is_causal=True), by_block.tril())


def test_a_block_sees_none_twice_and_random_ones_are_earlier_and_the_same_for_any_length() -> None:
    for i in range(40):
        seen = [block for block in blocks_seen(i, 40) if block >= 0]
        assert len(set(seen)) == len(seen)
        assert all(0 < block < i - 1 for block in random_blocks(i))
        assert len(blocks_seen(i, 40)) == len(blocks_seen(i, i + 1)) == 6


def test_where_all_tokens_are_global_it_is_full_attention_with_the_weights_of_the_window() -> None:
    torch.manual_seed(0)
    plain, layer = WindowAttention(D, H, reach=4).double(), GlobalWindowAttention(D, H, reach=4).double()
    layer.load_state_dict(plain.state_dict())
    x = torch.randn(1, 16, D, dtype=torch.float64)
    full = GlobalWindowReference(D, H, reach=16).double()
    full.load_state_dict(plain.state_dict())
    torch.testing.assert_close(layer(x), full(x))


@pytest.mark.parametrize(
    ("layer_class", "reference", "options"),
    [
        (GlobalWindowAttention, GlobalWindowReference, {"reach": 3, "global_tokens": 2}),
        (BlockSparseAttention, BlockSparseReference, {"block": 4}),
    ],
)
@pytest.mark.parametrize("pieces", [[1, 20], [7, 14], [20, 1]])
def test_a_text_may_be_prefilled_in_pieces(layer_class: Any, reference: Any, options: Any, pieces: list[int]) -> None:
    torch.manual_seed(0)
    layer, exact = layer_class(D, H, **options).double(), reference(D, H, **options).double()
    exact.load_state_dict(layer.state_dict())
    x = torch.randn(2, 22, D, dtype=torch.float64)
    state = layer.start(2, 22)
    for piece in x[:, :21].split(pieces, dim=1):
        state = layer.prefill(piece, state)
    causal = torch.ones(1, 1, 22, 22, dtype=torch.bool).tril()
    torch.testing.assert_close(layer.step(x[:, 21], state)[0], exact(x, attn_mask=causal)[:, 21])
