"""What the forms of linear attention have in common: the feature map, and decoding.

    y_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j),   φ(x) = elu(x) + 1

Katharopoulos et al. 2020, "Transformers are RNNs", equations 4, 5 and 7. Where softmax attention has exp(q·k), this has
a product of features, and the sum over j no longer needs i: one token more is one step of a recurrence,

    S_i = S_{i-1} + φ(k_i) v_iᵀ,   z_i = z_{i-1} + φ(k_i),   y_i = φ(q_i)ᵀ S_i / φ(q_i)·z_i

(section 3.4, equations 16 to 20), whose state does not grow with n.
"""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import elu

from impls.attention.parameters import AttentionParameters


def feature_map(x: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1, which is positive."""
    return elu(x) + 1


def averaged_features(k: Tensor) -> Tensor:
    """φ of m keys, over m, which cancels: sums over all keys are means, and stay in the range of float16 at any m."""
    return feature_map(k) / k.shape[-2]


def sums_in(dtype: torch.dtype) -> torch.dtype:
    """What is added up token by token is kept in float32 at least: in bfloat16 a sum of 256 ones stays there."""
    return torch.promote_types(dtype, torch.float32)


class LinearState(NamedTuple):
    """What decoding keeps of all tokens so far: S (b, h, head_dim, head_dim) and z (b, h, 1, head_dim).

    `is_source`: they are of a source (cross-attention), and no token is added.
    """

    s: Tensor
    z: Tensor
    is_source: bool = False

    def add(self, k: Tensor, v: Tensor) -> "LinearState":
        """With t tokens more, whose features and values are (b, h, t, head_dim) each."""
        k, v = k.to(self.s.dtype), v.to(self.s.dtype)
        return self._replace(s=self.s + k.transpose(-2, -1) @ v, z=self.z + k.sum(-2, keepdim=True))

    def read(self, q: Tensor) -> Tensor:
        """What the features of queries (b, h, t, head_dim) get out of it: (b, h, t, head_dim)."""
        q = q.to(self.s.dtype)
        return q @ self.s / (q * self.z).sum(-1, keepdim=True)


class LinearAttention(AttentionParameters):
    """The weights of softmax attention, put to another use. A form says how all tokens are done at once."""

    causal: ClassVar[bool] = False

    def start(self, batch_size: int, seq_len: int, source: Tensor | None = None) -> LinearState:
        """The state of no token; with a source, that of all its tokens."""
        weight = self.in_proj_weight
        s = weight.new_zeros(batch_size, self.num_heads, self.head_dim, self.head_dim, dtype=sums_in(weight.dtype))
        state = LinearState(s, s.new_zeros(batch_size, self.num_heads, 1, self.head_dim))
        return state if source is None else self.prefill(source, state)._replace(is_source=True)

    def step(self, x_t: Tensor, state: LinearState) -> tuple[Tensor, LinearState]:
        """One token more, (b, d) -> (b, d), at the same cost however many there were before."""
        if state.is_source:
            q = self.queries(x_t[:, None])  # (b, h, 1, head_dim)
        else:
            q, k, v = self.project(x_t[:, None])  # (b, h, 1, head_dim) each
            state = state.add(feature_map(k), v)
        heads = state.read(feature_map(q)).to(x_t.dtype)  # (b, h, 1, head_dim)
        return self.merge(heads)[:, 0], state

    def prefill(self, x: Tensor, state: LinearState) -> LinearState:
        """The state after t tokens (b, t, d) more."""
        if state.is_source:
            return state
        k, v = self.keys_and_values(x)  # (b, h, t, head_dim) each
        return state.add(feature_map(k), v)

    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """φ(q_i)·φ(k_j) over its sum, written out to be looked at: (b, n, d) -> (b, h, n, n), rows sum to 1."""
        q, k, _ = self.project(x)
        scores = feature_map(q) @ averaged_features(k).transpose(-2, -1)  # (b, h, n, n)
        if self.causal:
            scores = scores.tril()
        if attn_mask is not None:
            scores = scores * attn_mask
        return scores / scores.sum(-1, keepdim=True)
