"""Common base of all forms of linear attention: the feature map and decoding.

    y_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j),   φ(x) = elu(x) + 1

Katharopoulos et al. 2020, "Transformers are RNNs", equations 4, 5 and 7. The exp(q·k) of softmax attention is replaced
by a product of features. The sum over j then no longer depends on i, so one more token is one step of a recurrence:

    S_i = S_{i-1} + φ(k_i) v_iᵀ,   z_i = z_{i-1} + φ(k_i),   y_i = φ(q_i)ᵀ S_i / φ(q_i)·z_i

(section 3.4, equations 16 to 20). The size of its state does not grow with n.
"""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import elu

from impls.attention.parameters import AttentionParameters


def feature_map(x: Tensor) -> Tensor:
    """Return φ(x) = elu(x) + 1, which is positive."""
    return elu(x) + 1


def averaged_features(k: Tensor) -> Tensor:
    """Return φ of m keys, divided by m. The factor cancels in the output.

    Sums over all keys become means and stay in the range of float16 for any m.
    """
    return feature_map(k) / k.shape[-2]


def sums_in(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype for sums over tokens: float32 or wider. In bfloat16, a sum of ones stops growing at 256."""
    return torch.promote_types(dtype, torch.float32)


class LinearState(NamedTuple):
    """Decoding state of all tokens so far: S (b, h, head_dim, head_dim) and z (b, h, 1, head_dim).

    `is_source`: the state belongs to a source (cross-attention), and no token is added.
    """

    s: Tensor
    z: Tensor
    is_source: bool = False

    def add(self, k: Tensor, v: Tensor) -> "LinearState":
        """Return the state after t more tokens, with features and values (b, h, t, head_dim) each."""
        k, v = k.to(self.s.dtype), v.to(self.s.dtype)
        return self._replace(s=self.s + k.transpose(-2, -1) @ v, z=self.z + k.sum(-2, keepdim=True))

    def read(self, q: Tensor) -> Tensor:
        """Return the attention output for the features of queries: (b, h, t, head_dim) in and out."""
        q = q.to(self.s.dtype)
        return q @ self.s / (q * self.z).sum(-1, keepdim=True)


class LinearAttention(AttentionParameters):
    """Linear attention with the weights of softmax attention. Each form defines how all tokens are computed at once."""

    causal: ClassVar[bool] = False

    def start(self, batch_size: int, seq_len: int, source: Tensor | None = None) -> LinearState:
        """Return the state before any token, or the state after all tokens of `source` if given."""
        weight = self.in_proj_weight
        s = weight.new_zeros(batch_size, self.num_heads, self.head_dim, self.head_dim, dtype=sums_in(weight.dtype))
        state = LinearState(s, s.new_zeros(batch_size, self.num_heads, 1, self.head_dim))
        return state if source is None else self.prefill(source, state)._replace(is_source=True)

    def step(self, x_t: Tensor, state: LinearState) -> tuple[Tensor, LinearState]:
        """Process one more token: (b, d) -> (b, d). The cost does not depend on the number of earlier tokens."""
        if state.is_source:
            q = self.queries(x_t[:, None])  # (b, h, 1, head_dim)
        else:
            q, k, v = self.project(x_t[:, None])  # (b, h, 1, head_dim) each
            state = state.add(feature_map(k), v)
        heads = state.read(feature_map(q)).to(x_t.dtype)  # (b, h, 1, head_dim)
        return self.merge(heads)[:, 0], state

    def prefill(self, x: Tensor, state: LinearState) -> LinearState:
        """Return the state after t more tokens (b, t, d)."""
        if state.is_source:
            return state
        k, v = self.keys_and_values(x)  # (b, h, t, head_dim) each
        return state.add(feature_map(k), v)

    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """Return φ(q_i)·φ(k_j) divided by its sum, for inspection: (b, n, d) -> (b, h, n, n). Rows sum to 1."""
        q, k, _ = self.project(x)
        scores = feature_map(q) @ averaged_features(k).transpose(-2, -1)  # (b, h, n, n)
        if self.causal:
            scores = scores.tril()
        if attn_mask is not None:
            scores = scores * attn_mask
        return scores / scores.sum(-1, keepdim=True)
