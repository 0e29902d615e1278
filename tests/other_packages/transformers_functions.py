"""Attention functions of transformers, each in ten lines or fewer. Nothing of the harness is imported."""

import torch
from torch import nn
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.models.llama.modeling_llama import eager_attention_forward


class Packed(nn.Module):
    """What the kernels f(q, k, v) share: q, k and v (b, h, n, head_dim), side by side in the input."""

    input_width, reference, family = 3, "sdpa.naive", "attention"

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_model // num_heads


class Eager(Packed):
    claims = {"work": "4n²d", "work_train": "12n²d", "memory": "hn² + nd", "depth": "1"}
    num_key_value_groups = 1

    def forward(self, qkv, attn_mask=None):
        q, k, v = qkv.unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        mask = None if attn_mask is None else torch.where(attn_mask, 0.0, -torch.inf).to(q.dtype)
        return eager_attention_forward(self, q, k, v, mask, self.head_dim**-0.5)[0].flatten(2)


class Sdpa(Packed):
    claims = {"work": "4n²d", "work_train": "14n²d", "memory": "nd", "depth": "1"}

    def forward(self, qkv, attn_mask=None, is_causal=False):
        q, k, v = qkv.unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        return sdpa_attention_forward(self, q, k, v, attn_mask, is_causal=is_causal)[0].flatten(2)
