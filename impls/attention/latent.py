"""Multi-head latent attention: keys and values of all heads come from one narrow vector for each token.

    c_j = W_c x_j,   k_j = [W_k c_j ; RoPE(W_r x_j)],   v_j = W_v c_j,   q_i = [W_q x_i ; RoPE(W_s x_i)]
    head = softmax(Q Kᵀ / √(head_dim + rope)) V

DeepSeek-AI 2024, "DeepSeek-V2", arXiv:2405.04434, section 2.1, equations 9 to 19. Queries are not compressed, as in the
paper's smaller model.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from impls.attention.fused import Text
from impls.attention.plain import concatenated, head_dim_of, split, weighted_sum


class LatentAttention(nn.Module):
    """(b, n, d) -> (b, n, d). The cache holds `latent` + `rope` words for each token, instead of 2d.

    Each query has `rope` more channels that depend on the position, and all heads share one such key. Only these are
    rotated, so that the other channels can be computed from c at any time.
    """

    axes: ClassVar[dict[str, tuple[str, int]]] = {"latent": ("l", 128), "rope": ("p", 16)}

    def __init__(self, d_model: int, num_heads: int, latent: int = 128, rope: int = 16) -> None:
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim_of(d_model, num_heads)
        self.latent, self.rope = latent, rope
        self.q_proj = nn.Linear(d_model, d_model + num_heads * rope, bias=False)
        self.down_proj = nn.Linear(d_model, latent + rope, bias=False)  # W_c and W_r
        self.up_proj = nn.Linear(latent, 2 * d_model, bias=False)  # W_k and W_v
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        q = self.queries(x, 0)  # (b, h, n, head_dim + rope)
        latents, shared = self.cached(x, 0).split([self.latent, self.rope], dim=-1)  # (b, n, latent), (b, n, rope)
        k, v = split(self.up_proj(latents), 2, self.num_heads)  # (b, h, n, head_dim) each
        k = torch.cat([k, shared[:, None].expand(-1, self.num_heads, -1, -1)], dim=-1)
        return self.out_proj(concatenated(weighted_sum(q @ k.mT / q.shape[-1] ** 0.5, v, attn_mask)))

    def queries(self, x: Tensor, position: int) -> Tensor:
        """Return the queries of tokens from `position` on: (b, n, d) -> (b, h, n, head_dim + rope)."""
        q = self.q_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
        q, turned = q.split([self.head_dim, self.rope], dim=-1)
        return torch.cat([q, rotated(turned, position)], dim=-1)

    def cached(self, x: Tensor, position: int) -> Tensor:
        """Return what decoding keeps of tokens from `position` on: (b, n, d) -> (b, n, latent + rope)."""
        latents, shared = self.down_proj(x).split([self.latent, self.rope], dim=-1)
        return torch.cat([latents, rotated(shared, position)], dim=-1)

    def start(self, batch_size: int, seq_len: int) -> Text:
        """Return an empty cache for `seq_len` tokens of `latent` + `rope` words."""
        return Text(self.down_proj.weight.new_zeros(batch_size, seq_len, self.latent + self.rope), 0)

    def step(self, x_t: Tensor, cache: Text) -> tuple[Tensor, Text]:
        """Process one more token: (b, d) -> (b, d), without computing any key or value.

            q·(W_k c) = (W_kᵀ q)·c,   Σ_j a_j W_v c_j = W_v Σ_j a_j c_j

        The matrices are applied to the one query and to the one sum instead of to all n latents (section 2.1.2).
        """
        q = self.queries(x_t[:, None], cache.length)[:, :, 0]  # (b, h, head_dim + rope)
        cache = cache.append(self.cached(x_t[:, None], cache.length))
        w_k, w_v = self.up_proj.weight.view(2, self.num_heads, self.head_dim, self.latent)
        q, turned = q.split([self.head_dim, self.rope], dim=-1)
        absorbed = torch.cat([torch.einsum("bhe,hel->bhl", q, w_k), turned], dim=-1)  # (b, h, latent + rope)
        scores = absorbed @ cache.present().mT / (self.head_dim + self.rope) ** 0.5  # (b, h, n)
        summed = torch.softmax(scores, dim=-1) @ cache.present()[..., : self.latent]  # (b, h, latent)
        return self.out_proj(torch.einsum("bhl,hel->bhe", summed, w_v).flatten(1)), cache

    def prefill(self, x: Tensor, cache: Text) -> Text:
        """Add t tokens (b, t, d) to the cache at once."""
        return cache.append(self.cached(x, cache.length))


def rotated(x: Tensor, position: int) -> Tensor:
    """Turn pairs of channels by angles that grow with the position, from `position` on: (…, n, rope) in and out.

        RoPE(x)_i = x_i cos θ_i − x_{i + rope/2} sin θ_i,   θ_i = position · 10000^(−2i / rope)

    The second half of the channels is turned in the same way. Su et al. 2021, "RoFormer", arXiv:2104.09864, section 3.
    """
    half = x.shape[-1] // 2
    places = torch.arange(position, position + x.shape[-2], dtype=torch.float64, device=x.device)
    angles = places[:, None] * 10000 ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)  # (n, rope / 2) each
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class LatentReference(LatentAttention):
    """Reference of latent attention, pair by pair, RoPE as a product of complex numbers: (b, n, d) -> (b, r, d).

    With `rows` (r,), it returns the outputs of these queries only. Without, r = n.
    """

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        h, e, rope, d = self.num_heads, self.head_dim, self.rope, x.shape[-1]
        at = torch.arange(x.shape[1], device=x.device) if rows is None else rows
        q = torch.einsum("bnd,ed->bne", x[:, at], self.q_proj.weight).unflatten(
            -1, (h, e + rope)
        )  # (b, r, h, e + rope)
        w_c, w_r = self.down_proj.weight.split([self.latent, rope])
        latents = torch.einsum("bnd,ld->bnl", x, w_c)
        k = torch.einsum("bnl,hel->bnhe", latents, self.up_proj.weight[:d].view(h, e, -1))
        v = torch.einsum("bnl,hel->bnhe", latents, self.up_proj.weight[d:].view(h, e, -1))
        i = torch.arange(rope // 2).to(x)
        turns = torch.exp(1j * torch.arange(x.shape[1]).to(x)[:, None] * 10000 ** (-2 * i / rope))  # (n, rope / 2)
        of_queries = _as_complex(q[..., e:]) * turns[at, None]  # (b, r, h, rope / 2)
        of_keys = _as_complex(torch.einsum("bnd,rd->bnr", x, w_r)) * turns  # (b, n, rope / 2)
        by_content = torch.einsum("bihe,bjhe->bhij", q[..., :e], k)
        by_position = torch.einsum("bihr,bjr->bhij", of_queries, of_keys.conj()).real
        logits = (by_content + by_position) / (e + rope) ** 0.5  # (b, h, r, n)
        if attn_mask is not None:
            logits = torch.where(attn_mask, logits, torch.finfo(logits.dtype).min)  # a row may see no key
        weights = (logits - logits.logsumexp(-1, keepdim=True)).exp()
        return torch.einsum("bhij,bjhe->bihe", weights, v).flatten(2) @ self.out_proj.weight.T


def _as_complex(x: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return torch.complex(a, b)
