"""Which kernel `scaled_dot_product_attention` takes on CUDA, and its operator, as far as shapes and dtypes decide.

After torch's `aten/src/ATen/native/transformers/cuda/sdp_utils.cpp`, for a GPU of compute capability 8.0. The operators
have their shapes on the device `meta`, and their backward passes.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend
from torch.nn.functional import pad

_HALF = (torch.float16, torch.bfloat16)


def choice(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> int:
    """The number of its `SDPBackend`; of none that can, as torch does, RuntimeError."""
    allowed, half, head_dim = torch.backends.cuda, q.dtype in _HALF, q.shape[-1]
    unmasked, ungrouped = attn_mask is None, k.shape[1] == q.shape[1]
    assert q.stride(-1) == k.stride(-1) == v.stride(-1) == 1, "no fused kernel on CUDA takes such strides"
    if allowed.flash_sdp_enabled() and half and unmasked and head_dim <= 256:
        return SDPBackend.FLASH_ATTENTION.value
    if (
        allowed.mem_efficient_sdp_enabled()
        and q.dtype != torch.float64
        and ungrouped
        and head_dim % (8 if half else 4) == 0
    ):
        return SDPBackend.EFFICIENT_ATTENTION.value
    if allowed.cudnn_sdp_enabled() and half and head_dim % 8 == 0 and head_dim <= 128:
        return SDPBackend.CUDNN_ATTENTION.value
    if allowed.math_sdp_enabled():
        return SDPBackend.MATH.value
    raise RuntimeError("No available kernel. Aborting execution.")


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`scaled_dot_product_attention` by the operator of that kernel: (b, h, n, head_dim)."""
    taken = choice(q, k, v, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    head_dim, ops = q.shape[-1], torch.ops.aten
    scale = scale or head_dim**-0.5
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        numbers = torch.zeros_like(attn_mask, dtype=q.dtype)
        attn_mask = numbers.masked_fill_(attn_mask.logical_not(), float("-inf"))
    out: Any
    if taken == SDPBackend.MATH.value:
        more: dict[str, Any] = {"scale": scale, "enable_gqa": enable_gqa}
        out = ops._scaled_dot_product_attention_math(q, k, v, attn_mask, 0.0, is_causal, **more)
    elif taken == SDPBackend.FLASH_ATTENTION.value:
        q, k, v = (pad(heads, (0, -head_dim % 8)) for heads in (q, k, v))
        out = ops._scaled_dot_product_flash_attention(q, k, v, 0.0, is_causal, scale=scale)
    else:
        trains = torch.is_grad_enabled() and any(heads.requires_grad for heads in (q, k, v))
        bias = None if attn_mask is None else attn_mask.expand(*q.shape[:3], k.shape[2])
        efficient = taken == SDPBackend.EFFICIENT_ATTENTION.value
        kernel = ops._scaled_dot_product_efficient_attention if efficient else ops._scaled_dot_product_cudnn_attention
        out = kernel(q, k, v, bias, trains, 0.0, is_causal, scale=scale)
    heads: Tensor = out[0][..., :head_dim]
    return heads
