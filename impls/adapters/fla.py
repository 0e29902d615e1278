"""Causal linear attention by the flash-linear-attention package: chunks in Triton kernels.

    y_t = φ(q_t)ᵀ S_t / φ(q_t)·z_t,   S_t = S_{t-1} + φ(k_t) v_tᵀ,   z_t = z_{t-1} + φ(k_t)

Yang & Zhang 2024, "FLA"; Yang et al. 2023, section 3. The layer computes the same as `attention.linear.chunked`,
without writing the scores inside the chunks to memory. How the package's functions are used:

- They apply no feature map, so the layer applies φ itself.
- `normalize` divides by φ(q_t)·z_t.
- The package's factor of 1/√head_dim then appears above and below the fraction bar, and cancels.

Decoding divides before the kernel instead of after it: with the query φ(q_t) / φ(q_t)·z_t, the result needs no
division. The layer therefore keeps z itself. Releases of the package differ in how they carry z from token to token.

The kernels bypass torch's dispatcher. Their work cannot be observed, and none is claimed.
"""

import importlib
from typing import Any

from torch import Tensor

from impls.adapters.package import refusal
from impls.attention.linear.layer import LinearAttention, LinearState, averaged_features, feature_map


class FlaLinearAttention(LinearAttention):
    """(b, n, d) -> (b, n, d). No token sees a later one."""

    causal = True

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        ops = importlib.import_module("fla.ops.linear_attn")
        self.chunk_linear_attn = ops.chunk_linear_attn
        self.fused_recurrent_linear_attn = ops.fused_recurrent_linear_attn

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why a case cannot run, or None if nothing prevents it."""
        if case.d_model // case.num_heads % 2:
            return f"its kernels take heads of an even size, not of {case.d_model // case.num_heads}"
        # In float32, Triton silently rounds the factors of a product to 10 bits, which is no longer float32.
        return refusal(case, "fla", "flash-linear-attention", ("float16", "bfloat16"))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x)  # (b, h, n, head_dim) each
        features = feature_map(q), averaged_features(k)
        q, k, v = (heads.transpose(1, 2) for heads in (*features, v))  # (b, n, h, head_dim) each
        heads: Tensor = self.chunk_linear_attn(q, k, v, normalize=True)[0]  # (b, n, h, head_dim)
        return self.merge(heads.transpose(1, 2))  # (b, n, d)

    def step(self, x_t: Tensor, state: LinearState) -> tuple[Tensor, LinearState]:
        """Process one more token: (b, d) -> (b, d)."""
        q, k, v = (heads.to(state.s.dtype) for heads in self.project(x_t[:, None]))  # (b, h, 1, head_dim) each
        q, k = feature_map(q), feature_map(k)
        z = state.z + k  # (b, h, 1, head_dim)
        q = q / (q * z).sum(-1, keepdim=True)
        q, k, v = (heads.transpose(1, 2) for heads in (q, k, v))  # (b, 1, h, head_dim) each
        heads, s = self.fused_recurrent_linear_attn(
            q, k, v, scale=1.0, initial_state=state.s, output_final_state=True, normalize=False
        )  # (b, 1, h, head_dim), (b, h, head_dim, head_dim)
        return self.merge(heads.transpose(1, 2).to(x_t.dtype))[:, 0], LinearState(s, z)
