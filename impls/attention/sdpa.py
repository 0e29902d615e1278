"""`scaled_dot_product_attention` restricted to the named kernels.

Unrestricted, torch silently falls back to `math`, which writes the n × n scores to memory. `sdpa_kernel` forbids the
fallback, but entering and leaving it takes longer than everything else around a small call.

This module therefore first asks torch which kernel it would choose. The question uses the same arguments and the
function by which `scaled_dot_product_attention` itself decides. If the answer is a named kernel, the call runs
unchanged. If not, all other kernels are disabled for the call, by the same switches that `sdpa_kernel` uses.
RuntimeError is then raised if no named kernel can run.

Torch is asked at every call, which takes less than a microsecond. A change of size or setting therefore never leads to
another kernel.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention

# By number, as torch answers: comparing the names themselves takes longer than asking torch.
FLASH = (SDPBackend.FLASH_ATTENTION.value,)
EFFICIENT = (SDPBackend.EFFICIENT_ATTENTION.value,)
CUDNN = (SDPBackend.CUDNN_ATTENTION.value,)
MATH = (SDPBackend.MATH.value,)
FUSED = FLASH + EFFICIENT + CUDNN

Backends = tuple[int, ...]


def pinned_attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, is_causal: bool, backends: Backends
) -> Tensor:
    """Return (b, h, n, head_dim), computed by one of the backends. Raises RuntimeError if none of them can run."""
    if torch._fused_sdp_choice(q, k, v, attn_mask, 0.0, is_causal) in backends:
        return scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal)
    with _switched(backends):
        return scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal)


# For each kernel number: the function that returns whether it is allowed, and the function that sets it.
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
    """Allow only these kernels inside the context."""
    before = [(put, is_allowed()) for is_allowed, put in _SWITCHES.values()]
    try:
        for number, (_, put) in _SWITCHES.items():
            put(number in backends)
        yield
    finally:
        for put, allowed in before:
            put(allowed)


def grouped_attention(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
    """Return (b, h, n, head_dim) by a fused kernel, with fewer heads of keys and values, each shared by a group of h.

    Not every fused kernel supports groups: on CUDA, flash does; the CPU kernel of older torch versions does not. If
    torch would fall back to `math`, keys and values are repeated in memory, once for every query head.
    """
    if torch._fused_sdp_choice(q, k, v, attn_mask, 0.0, is_causal, enable_gqa=True) in FUSED:
        return scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal, enable_gqa=True)
    group = q.shape[1] // k.shape[1]
    keys, values = (heads.repeat_interleave(group, dim=1) for heads in (k, v))  # (b, h, m, head_dim) each
    return pinned_attention(q, keys, values, attn_mask, is_causal, FUSED)
