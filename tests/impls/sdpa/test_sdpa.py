"""Attention without projections: the core of the attention layers, by the kernel that it names."""

from itertools import pairwise

import pytest
import torch
from attention.watch import watched
from torch.nn.functional import linear, scaled_dot_product_attention

from harness.core.model.sweep_axes import Case
from harness.core.trial.call_memory import allocator_peak
from harness.core.trial.workload import Unsupported, build
from impls.attention.fused import FlashAttention, FusedAttention
from impls.attention.plain import PackedAttention
from impls.registry import IMPLS
from impls.sdpa.layers import FlashSdpa, FusedSdpa, NaiveSdpa

ALL = (NaiveSdpa, FusedSdpa, FlashSdpa)
NAMES = [name for name, impl in IMPLS.items() if impl.target.startswith("impls.sdpa.layers:")]
FLASH_KERNEL = "aten::_scaled_dot_product_flash_attention_for_cpu"
B, N, D, H = 2, 7, 12, 3


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("layer_class", ALL)
def test_it_is_what_an_attention_layer_does_between_its_projections(layer_class: type) -> None:
    layer, x = PackedAttention(D, H), torch.randn(B, N, D)
    between = layer_class(D, H)(linear(x, layer.in_proj_weight, layer.in_proj_bias))
    torch.testing.assert_close(layer.out_proj(between), layer(x))


@pytest.mark.parametrize("layer_class", ALL)
def test_its_input_is_packed_as_flash_attentions_own_benchmark_packs_it(layer_class: type) -> None:
    qkv = torch.randn(B, N, 3, H, D // H)
    heads = scaled_dot_product_attention(*(qkv[:, :, i].transpose(1, 2) for i in range(3)))
    torch.testing.assert_close(layer_class(D, H)(qkv.flatten(2)), heads.transpose(1, 2).flatten(2))


@pytest.mark.parametrize("layer_class", [FusedSdpa, FlashSdpa])
def test_a_fused_one_is_one_kernel_and_no_copy(layer_class: type) -> None:
    seen = watched(lambda: layer_class(D, H)(torch.randn(B, N, 3 * D)))
    assert FLASH_KERNEL in seen.names
    assert not {"aten::clone", "aten::copy_", "aten::bmm"} & set(seen.names)


def test_which_kernels_it_may_take_and_what_they_cannot_do_is_as_of_the_attention_layers() -> None:
    for ours, layer in ((FusedSdpa, FusedAttention), (FlashSdpa, FlashAttention)):
        assert ours.backends == layer.backends
        assert ours.supports is layer.supports


def peak_bytes(impl: str, n: int, mode: str, mask: str) -> int:
    torch.set_grad_enabled(True)
    work = build(Case(impl, n, 8, 2, mode=mode, mask=mask), seed=0)
    work.call()
    work.forget()
    return allocator_peak(work.call, "cpu")[0]


@pytest.mark.parametrize("mask", ["none", "causal"])
@pytest.mark.parametrize(("mode", "matrices"), [("forward", 2), ("train", 3)])
def test_so_many_matrices_of_all_heads_scores_are_alive_at_the_peak_of_the_naive_one(
    mode: str, matrices: int, mask: str
) -> None:
    one = 4 * 2 * 256**2  # float32, two heads
    assert matrices * one <= peak_bytes("sdpa.naive", 256, mode, mask) < (matrices + 0.2) * one  # and some n·d


def test_the_memory_of_a_fused_one_grows_by_as_much_for_every_token_more() -> None:
    lengths = (1024, 1280, 1536)  # from 768 on the kernel's own blocks are the same
    peaks = [peak_bytes("sdpa.fused", n, "train", "none") for n in lengths]
    first, second = (large - small for small, large in pairwise(peaks))
    assert first == second


@pytest.mark.parametrize("name", NAMES)
def test_its_input_is_three_times_as_wide_as_its_output_and_it_has_no_weights(name: str) -> None:
    work = build(Case(name, N, D, H, batch_size=B, mode="train"), seed=0)
    assert work.x.shape == (B, N, 3 * D)
    assert work.gradient is not None
    assert work.gradient.shape == work.call().shape == (B, N, D)
    assert work.layer.state_dict() == {}


@pytest.mark.parametrize("name", NAMES)
def test_it_does_not_decode(name: str) -> None:
    with pytest.raises(Unsupported, match="its input is 3 times as wide as its output"):
        build(Case(name, N, D, H, mode="decode"), seed=0)


def test_heads_that_do_not_divide_the_width_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="d_model=10 is not divisible by num_heads=3"):
        NaiveSdpa(10, 3)
