"""Kernels of packages on the index, each in ten lines or fewer. Nothing of the harness is imported."""

import torch
from linear_attention_transformer.linear_attention_transformer import linear_attn
from local_attention import LocalAttention
from mambapy.mamba import MambaBlock, MambaConfig
from nystrom_attention import NystromAttention
from performer_pytorch import FastAttention
from torch import nn
from x_transformers import Attention


class Packed(nn.Module):
    """What the kernels f(q, k, v) share: q, k and v (b, h, n, head_dim), side by side in the input."""

    input_width, reference, family = 3, "sdpa.naive", "attention"

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, d_model // num_heads

    def forward(self, qkv):
        q, k, v = qkv.unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        return self.f(q, k, v).transpose(1, 2).flatten(2)


class Local(Packed):
    claims = {"work": "4n·96·d", "work_train": "12n·96·d", "depth": "1"}
    reference = "kernels:Banded"

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.f = LocalAttention(32, look_forward=1, exact_windowsize=True, autopad=True)


class Banded(Packed):
    """What `Local` must compute: softmax over the tokens within 32."""

    def f(self, q, k, v):
        band = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool).tril(32).triu(-32)
        scores = q @ k.transpose(-2, -1) / self.head_dim**0.5
        return scores.masked_fill(~band, -torch.inf).softmax(-1) @ v


class Linear(Packed):
    claims = {"work": "4nd²/h", "work_train": "12nd²/h", "memory": "nd + d²/h", "depth": "1"}
    f, reference = staticmethod(linear_attn), None


class Softmax(Packed):
    """What `Performer` approximates. It has none of its random features."""

    def f(self, q, k, v):
        return (q @ k.transpose(-2, -1) / self.head_dim**0.5).softmax(-1) @ v

    def load_state_dict(self, state_dict, strict=True):
        return super().load_state_dict({})


class Performer(Packed):
    claims = {"work": "8n·64·d + 2n·64·h", "depth": "1"}  # 64 random features
    features, reference = 64, None

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, num_heads)
        self.f = FastAttention(self.head_dim, nb_features=self.features)


class Approximate64(Performer):
    reference = "kernels:Softmax"


class Approximate1024(Approximate64):
    features = 1024


class Nystrom(NystromAttention):
    family = "attention"
    # 64 landmarks, whose pseudo-inverse takes six iterations of four products
    claims = {"work": "8nd² + 8n·64·d + 2n·64·64·h + 2·64·64·d + 48·64·64·64·h", "depth": "1"}

    def __init__(self, d_model, num_heads):
        super().__init__(d_model, d_model // num_heads, num_heads, num_landmarks=64, residual=False)


class Mamba(MambaBlock):
    family, causal = "rnn", True
    claims = {"work": "12nd² + 240nd + 48d", "work_decode": "12d² + 336d"}  # a state of 16, a rank of 4

    def __init__(self, d_model):
        super().__init__(MambaConfig(d_model, n_layers=1, dt_rank=4))

    def start(self, batch_size, seq_len):
        return None, self.out_proj.weight.new_zeros(batch_size, self.config.d_inner, self.config.d_conv - 1)


class XTransformers(nn.Module):
    family = "attention"
    claims = {"work": "8nd² + 4n²d", "depth": "1"}

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.inner = Attention(d_model, heads=num_heads, dim_head=d_model // num_heads)

    def forward(self, x, attn_mask=None):
        return self.inner(x, attn_mask=attn_mask)
