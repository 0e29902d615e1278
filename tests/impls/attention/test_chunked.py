"""Attention block by block: exact, whatever the blocks, and without n × n scores."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from harness.core.model.sweep_axes import Case
from harness.core.trial.call_memory import allocator_peak
from harness.core.trial.counts.collect import trace_call
from harness.core.trial.workload import build
from impls.attention.chunked import BlockwiseAttention, ChunkedAttention

NEVER = float("-inf")


def draw(n: int, m: int, b: int = 2, h: int = 3, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    return tuple(torch.randn(b, h, length, 4, dtype=dtype, requires_grad=True) for length in (n, m, m))  # type: ignore[return-value]


def written_out(q: Tensor, k: Tensor, v: Tensor, seen: Tensor | None = None) -> Tensor:
    scores = torch.einsum("bhie,bhje->bhij", q, k) / q.shape[-1] ** 0.5
    if seen is not None:
        scores = scores.masked_fill(~seen, NEVER)
    return torch.softmax(scores, dim=-1) @ v


def assert_same(blockwise: Callable[..., Tensor], exact: Callable[..., Tensor], *qkv: Tensor) -> None:
    """Outputs, and the gradients of queries, keys and values."""
    y, expected = blockwise(*qkv), exact(*qkv)
    torch.testing.assert_close(y, expected)
    given = torch.randn_like(y)
    got, wanted = (torch.autograd.grad(out, qkv, given) for out in (y, expected))
    torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (8, 8), (7, 7), (9, 9), (5, 13), (13, 5)])
@pytest.mark.parametrize("block", [1, 3, 4, 64])
def test_any_length_in_any_blocks_is_attention_written_out(n: int, m: int, block: int) -> None:
    assert_same(lambda q, k, v: BlockwiseAttention.apply(q, k, v, None, None, block), written_out, *draw(n, m))


@pytest.mark.parametrize("block", [1, 3, 4, 64])
def test_under_a_causal_mask_no_token_sees_a_later_one(block: int) -> None:
    later = torch.ones(block, block, dtype=torch.bool).triu(1)
    seen = torch.ones(10, 10, dtype=torch.bool).tril()
    assert_same(
        lambda q, k, v: BlockwiseAttention.apply(q, k, v, None, later, block),
        lambda q, k, v: written_out(q, k, v, seen),
        *draw(10, 10),
    )


MASKS = {
    "padding after a sequence": torch.arange(11).view(1, 1, 1, 11) < torch.tensor([4, 11]).view(2, 1, 1, 1),
    "padding before it, whole blocks of it": torch.arange(11).view(1, 1, 1, 11)
    >= torch.tensor([7, 0]).view(2, 1, 1, 1),
    "each token from the one two after it on": torch.ones(9, 11, dtype=torch.bool).triu(2)[None, None],
    "a mask for each head": torch.rand(1, 3, 9, 11, generator=torch.Generator().manual_seed(0)) < 0.5,
    "a mask of queries": torch.ones(2, 1, 9, 1, dtype=torch.bool),
}
MASKS["a mask for each head"][..., 10] = True


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("block", [2, 4, 64])
def test_where_a_mask_hides_the_first_blocks_wholly_it_is_still_exact(name: str, block: int) -> None:
    mask = MASKS[name]
    assert_same(
        lambda q, k, v: BlockwiseAttention.apply(q, k, v, mask, None, block),
        lambda q, k, v: written_out(q, k, v, mask),
        *draw(9, 11),
    )


def test_scores_too_large_for_exp_do_not_overflow() -> None:
    q, k, v = (200 * t.detach().float() for t in draw(9, 9))
    torch.testing.assert_close(BlockwiseAttention.apply(q, k, v, None, None, 2), written_out(q, k, v))


def test_gradients_are_those_of_finite_differences() -> None:
    qkv, later = draw(5, 5, b=1, h=2), torch.ones(2, 2, dtype=torch.bool).triu(1)
    assert torch.autograd.gradcheck(lambda q, k, v: BlockwiseAttention.apply(q, k, v, None, None, 2), qkv)
    assert torch.autograd.gradcheck(lambda q, k, v: BlockwiseAttention.apply(q, k, v, None, later, 2), qkv)


def test_backward_runs_twice_over_one_graph() -> None:
    qkv = draw(9, 9)
    y = BlockwiseAttention.apply(*qkv, None, None, 2)
    first, again = (torch.autograd.grad(y.sum(), qkv, retain_graph=True) for _ in range(2))
    assert all(map(torch.equal, first, again))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_is_saved_is_q_k_v_the_output_and_one_float32_a_row(dtype: torch.dtype) -> None:
    saved: list[Tensor] = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        BlockwiseAttention.apply(*draw(9, 11, dtype=dtype), None, None, 2)
    assert [(tensor.numel(), tensor.dtype) for tensor in saved] == [
        *((2 * 3 * 4 * length, dtype) for length in (9, 11, 11, 9)),
        (2 * 3 * 9, torch.float32),
    ]


def test_a_causal_mask_leaves_out_the_blocks_above_the_diagonal() -> None:
    none, causal = (
        trace_call(build(Case("attention.chunked", 256, 8, 1, mask=mask), seed=0)).flops.work
        for mask in ("none", "causal")
    )
    assert none is not None
    assert causal is not None
    projections = 8 * 256 * 8**2
    assert causal.flops - projections == (none.flops - projections) * 10 // 16  # 4 × 4 blocks, 6 of them above


@pytest.mark.parametrize(
    ("mode", "mask"),
    [("forward", "none"), ("backward", "none"), ("train", "none"), ("train", "causal"), ("train", "padding")],
)
def test_memory_grows_with_n_and_not_with_its_square(mode: str, mask: str) -> None:
    share = 0.5 if mask == "padding" else 0.0
    peaks = []
    for n in (256, 512):
        torch.set_grad_enabled(True)
        work = build(Case("attention.chunked", n, 16, 1, mode=mode, mask=mask, padding_fraction=share), seed=0)
        peaks.append(allocator_peak(work.call, "cpu")[0])
    assert peaks[1] <= 2 * peaks[0]
    assert peaks[1] < 512**2 * 4 / 2  # of n × n scores, and not even one head's


def test_the_block_is_an_option_and_no_weight() -> None:
    small, large = ChunkedAttention(8, 2, block=3), ChunkedAttention(8, 2)
    large.load_state_dict(small.state_dict())
    x = torch.randn(2, 100, 8)
    torch.testing.assert_close(small(x, is_causal=True), large(x, is_causal=True))
