"""`scaled_dot_product_attention` by the kernels that are named, or not at all.

Left alone it falls back without a word to `math`, which writes the n × n scores to memory. `sdpa_kernel` forbids
that, but entering and leaving it takes longer than all the rest around a small call. So torch is first asked, by the
function that `scaled_dot_product_attention` itself decides by and with the same arguments, which kernel it would
take. If it is one of the named it is left alone; otherwise all others are switched off for the call, by the switches
that `sdpa_kernel` itself turns, and it raises RuntimeError where none of the named can run. The question is put anew
at every call and takes less than a microsecond, so that nothing which changes meanwhile (a size, a setting) leads to
another kernel.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention

# By their numbers, which is what torch answers with: to compare the names themselves takes longer than to ask.
FLASH = (SDPBackend.FLASH_ATTENTION.value,)
EFFICIENT = (SDPBackend.EFFICIENT_ATTENTION.value,)
CUDNN = (SDPBackend.CUDNN_ATTENTION.value,)
MATH = (SDPBackend.MATH.value,)
FUSED = FLASH + EFFICIENT + CUDNN

Backends = tuple[int, ...]


def pinned_attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, is_causal: bool, backends: Backends
) -> Tensor:
    """(b, h, n, head_dim) by one of the backends. Raises RuntimeError if none of them can."""
    if torch._fused_sdp_choice(q, k, v, attn_mask, 0.0, is_causal) in backends:
        return scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal)
    with _switched(backends):
        return scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal)


# By number: what tells whether a kernel is allowed, and what allows or forbids it.
_SWITCHES = {
    SDPBackend.FLASH_ATTENTION.value: (torch._C._get_flash_sdp_enabled, torch._C._set_sdp_use_flash),
    SDPBackend.EFFICIENT_ATTENTION.value: (
        torch._C._get_mem_efficient_sdp_enabled,
        torch._C._set_sdp_use_mem_efficient,
    ),
    SDPBackend.CUDNN_ATTENTION.value: (torch._C._get_cudnn_sdp_enabled, torch._C._set_sdp_use_cudnn),
    SDPBackend.MATH.value: (torch._C._get_math_sdp_enabled, torch._C._set_sdp_use_math),
}


@contextmanager
def _switched(backends: Backends) -> Iterator[None]:
    """Only these kernels are allowed."""
    before = [(put, is_allowed()) for is_allowed, put in _SWITCHES.values()]
    try:
        for number, (_, put) in _SWITCHES.items():
            put(number in backends)
        yield
    finally:
        for put, allowed in before:
            put(allowed)


def grouped_attention(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
    """(b, h, n, head_dim) by a fused kernel, keys and values having fewer heads, of which each serves a group of h.

    Not every fused kernel takes that (on CUDA flash does, in older versions of torch the CPU's does not). Where torch
    would fall back to `math`, keys and values are repeated in memory, as many heads as there are queries.
    """
    if torch._fused_sdp_choice(q, k, v, attn_mask, 0.0, is_causal, enable_gqa=True) in FUSED:
        return scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal, enable_gqa=True)
    group = q.shape[1] // k.shape[1]
    keys, values = (heads.repeat_interleave(group, dim=1) for heads in (k, v))  # (b, h, m, head_dim) each
    return pinned_attention(q, keys, values, attn_mask, is_causal, FUSED)
