"""Linear attention in three forms (all tokens at once, in chunks, recurrent), and the reference for all of them.

    y_i = Σ_j (φ(q_i)·φ(k_j)) v_j / Σ_j φ(q_i)·φ(k_j),   φ(x) = elu(x) + 1

Katharopoulos et al. 2020, "Transformers are RNNs", equations 4, 5 and 7. The exp(q·k) of softmax attention is replaced
by a product of features.
"""

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import elu, pad

from impls.attention.plain import AttentionParameters


def feature_map(x: Tensor) -> Tensor:
    """Return φ(x) = elu(x) + 1, which is positive."""
    return elu(x) + 1


def averaged_features(k: Tensor) -> Tensor:
    """Return φ of m keys, divided by m. The factor cancels in the output.

    Sums over all keys become means and stay in the range of float16 for any m.
    """
    return feature_map(k) / k.shape[-2]


def without_empty_rows(attn_mask: Tensor) -> Tensor:
    """Return the mask (…, m) with all keys where a query sees none, as in an empty sequence. Its sum would be 0."""
    return attn_mask | ~attn_mask.any(-1, keepdim=True)


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
    """Linear attention with the weights of softmax attention. Each form defines how all tokens are computed at once.

    Decoding is the same in all forms. The sum over j no longer depends on i, so one more token is one step of a
    recurrence:

        S_i = S_{i-1} + φ(k_i) v_iᵀ,   z_i = z_{i-1} + φ(k_i),   y_i = φ(q_i)ᵀ S_i / φ(q_i)·z_i

    (Katharopoulos et al. 2020, section 3.4, equations 16 to 20.) The size of its state does not grow with n.
    """

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


class ParallelLinearAttention(LinearAttention):
    """Linear attention of all tokens at once: the order of a product of three matrices makes it linear in n.

        (φ(Q) φ(K)ᵀ) V = φ(Q) (φ(K)ᵀ V)

    Katharopoulos et al. 2020, section 3.2, equation 6. The left side needs n² scores. The right side needs head_dim²
    sums, and its work is linear in n. Padding drops out of the sums by setting φ(k) = 0.

    A mask that differs between queries leaves no sum that all queries share. The layer then computes the left side,
    (φ(Q) φ(K)ᵀ ⊙ M) V, which is quadratic.

    (b, n, d) -> (b, n, d). `attn_mask` is broadcastable to (b, h, n, m) and True where a query may see a key. With a
    `source` (b, m, d), keys and values are computed from the source, and queries from x.
    """

    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        source: Tensor | None = None,
    ) -> Tensor:
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        q, k = feature_map(q), averaged_features(k)
        attn_mask = None if attn_mask is None else without_empty_rows(attn_mask)
        if attn_mask is not None and attn_mask.shape[-2] == 1:  # the same keys for all queries
            k, attn_mask = k * attn_mask.transpose(-2, -1), None
        if is_causal or attn_mask is not None:
            return self.merge(_masked(q, k, v, attn_mask, is_causal))  # (b, n, d)
        return self.merge(_linear(q, k, v))  # (b, n, d)


def _linear(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return the heads (b, h, n, head_dim) if all queries see all keys."""
    s = k.transpose(-2, -1) @ v  # (b, h, head_dim, head_dim)
    z = k.sum(-2, keepdim=True)  # (b, h, 1, head_dim)
    return q @ s / (q * z).sum(-1, keepdim=True)  # (b, h, n, head_dim)


def _masked(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, is_causal: bool) -> Tensor:
    """Return the heads (b, h, n, head_dim) if each query sees its own set of keys."""
    scores = q @ k.transpose(-2, -1)  # (b, h, n, m)
    if is_causal:
        scores = scores.tril()
    if attn_mask is not None:
        scores = scores * attn_mask
    return scores @ v / scores.sum(-1, keepdim=True)  # (b, h, n, head_dim)


class ChunkedLinearAttention(LinearAttention):
    """Causal linear attention in chunks: quadratic inside a chunk, with a state passed from chunk to chunk.

        Y_c = φ(Q_c) S_c + (φ(Q_c) φ(K_c)ᵀ ⊙ M) V_c,   S_c = Σ_{c' < c} φ(K_c')ᵀ V_c'

    Hua et al. 2022, "Transformer Quality in Linear Time", section 3; Yang et al. 2023, "Gated Linear Attention
    Transformers with Hardware-Efficient Training", section 3. (b, n, d) -> (b, n, d). No token sees a later one.

    Advantage over `RecurrentLinearAttention`: no loop. All chunks are computed at once, in products large enough to be
    efficient. The states are one prefix sum over n / chunk chunks, which is one kernel and counts as one operation.
    Drawbacks: the work inside the chunks grows with the chunk size, and all states are kept in memory.

    If n is a multiple of the chunk c, a forward pass has 8nd² + 4cnd + 4nd²/h FLOPs, and training three times as many.
    The last chunk is padded. Beyond the projections, any other n therefore costs as much as the next multiple of c.
    """

    causal = True

    axes: ClassVar[dict[str, tuple[str, int]]] = {"chunk": ("c", 64)}

    def __init__(self, d_model: int, num_heads: int, chunk: int = 64) -> None:
        super().__init__(d_model, num_heads)
        if chunk < 1:
            raise ValueError(f"chunk={chunk} is no number of tokens")
        self.chunk = chunk

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x)  # (b, h, n, head_dim) each
        # Queries are padded with 1 instead of 0: their outputs are discarded, but must not be 0 / 0.
        q = self.chunks(feature_map(q), filling=1.0)  # (b, h, chunks, chunk, head_dim)
        k, v = self.chunks(averaged_features(k)), self.chunks(v)  # (b, h, chunks, chunk, head_dim) each
        scores = (q @ k.transpose(-2, -1)).tril()  # (b, h, chunks, chunk, chunk)
        s = before(k.transpose(-2, -1) @ v)  # (b, h, chunks, head_dim, head_dim)
        z = before(k.sum(-2, keepdim=True))  # (b, h, chunks, 1, head_dim)
        total = (q * z).sum(-1, keepdim=True) + scores.sum(-1, keepdim=True)  # (b, h, chunks, chunk, 1)
        heads = (q @ s + scores @ v) / total  # (b, h, chunks, chunk, head_dim)
        return self.merge(heads.flatten(2, 3)[:, :, : x.shape[1]])  # (b, n, d)

    def chunks(self, tensor: Tensor, filling: float = 0.0) -> Tensor:
        """Split the tokens into chunks, padding the last one: (b, h, n, head_dim) -> (b, h, chunks, chunk, head_dim).

        The result is always a copy: chunks that are contiguous in memory form one batch of products.
        """
        b, h, n, head_dim = tensor.shape
        rest = tensor.new_full((b, h, -n % self.chunk, head_dim), filling)
        return torch.cat([tensor, rest], dim=2).unflatten(2, (-1, self.chunk))


def before(of_chunk: Tensor) -> Tensor:
    """Return, for each chunk, the sum over the chunks before it: (b, h, chunks, …) in and out."""
    sums = pad(of_chunk, (0, 0, 0, 0, 1, 0)).cumsum(2, dtype=sums_in(of_chunk.dtype))  # (b, h, 1 + chunks, …)
    return sums[:, :, :-1].to(of_chunk.dtype)


class RecurrentLinearAttention(LinearAttention):
    """Causal linear attention in its recurrent form, with the loop over time in Python: (b, n, d) -> (b, n, d).

        S_t = S_{t-1} + φ(k_t) v_tᵀ,   z_t = z_{t-1} + φ(k_t),   y_t = φ(q_t)ᵀ S_t / φ(q_t)·z_t

    Katharopoulos et al. 2020, section 3.4. No token sees a later one.
    """

    causal = True

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (tensor.to(sums_in(x.dtype)) for tensor in self.project(x))  # (b, h, n, head_dim) each
        q, k = feature_map(q), feature_map(k)
        total = (q * k.cumsum(-2)).sum(-1, keepdim=True)  # (b, h, n, 1), φ(q_t)·z_t
        heads = causal_product(*(tensor.flatten(0, 1) for tensor in (q, k, v)))  # (b·h, n, head_dim)
        return self.merge((heads.view_as(v) / total).to(x.dtype))  # (b, n, d)


def causal_product(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return Σ_{j ≤ t} (q_t·k_j) v_j for every t: (b, n, e), from three tensors (b, n, e)."""
    return _CausalProduct.apply(q, k, v)


class _CausalProduct(torch.autograd.Function):
    """The backward pass does not keep the n states (nd²/h words) but recomputes them.

    With p_t = q_tᵀ S_t = Σ_{j ≤ t} (q_t·k_j) v_j and its gradient g_t, where q and k are already features:

        ∂q_t = Σ_{j ≤ t} (g_t·v_j) k_j,   ∂k_t = Σ_{j ≥ t} (v_t·g_j) q_j,   ∂v_t = Σ_{j ≥ t} (k_t·q_j) g_j

    (Katharopoulos et al. 2020, section 3.3.1, equations 13 to 15.) Each of the three sums is the same recurrence again,
    with one state alive. The last two run from the end to the beginning.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        ctx.save_for_backward(q, k, v)
        s = q.new_zeros(k.shape[0], k.shape[2], v.shape[2])  # (b, e, e)
        products = []
        for q_t, k_t, v_t in zip(*(tensor.split(1, dim=1) for tensor in (q, k, v)), strict=True):  # (b, 1, e) each
            s.baddbmm_(k_t.transpose(1, 2), v_t)  # overwrites the previous state
            products.append(q_t @ s)  # (b, 1, e)
        return torch.cat(products, dim=1)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = ctx.saved_tensors
        # Calls `causal_product` again so that second derivatives exist.
        grad_q = causal_product(g, v, k)
        q, k, v, g = (tensor.flip(1) for tensor in (q, k, v, g))
        return grad_q, causal_product(v, g, q).flip(1), causal_product(k, q, g).flip(1)


class LinearAttentionReference(AttentionParameters):
    """Reference for linear attention, written out pair by pair: every form is checked against it.

        y_i = W_o Concat_h( Σ_j s_ij v_j / Σ_j s_ij ),   s_ij = φ(q_i)·φ(k_j),   φ(x) = x + 1 for x > 0, else exp(x)

    Katharopoulos et al. 2020, equations 4 and 7. The sums run over the keys that i may see. With `rows`, it returns the
    outputs of these tokens only. Written for float64, not for speed. (b, n, d) -> (b, n, d).
    """

    causal: ClassVar[bool] = False

    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        source: Tensor | None = None,
        rows: Tensor | None = None,
    ) -> Tensor:
        source = x if source is None else source  # (b, m, d)
        place = torch.arange(x.shape[1], device=x.device)
        x, at = (x, place) if rows is None else (x[:, rows], rows)  # (b, n, d)
        d, head_dim = x.shape[-1], self.head_dim
        w_q, w_k, w_v = self.in_proj_weight.view(3, self.num_heads, head_dim, d)  # (h, head_dim, d) each
        b_q, b_k, b_v = self.in_proj_bias.view(3, 1, self.num_heads, 1, head_dim)  # (1, h, 1, head_dim) each
        q = torch.einsum("bnd,hed->bhne", x, w_q) + b_q  # (b, h, n, head_dim)
        k = torch.einsum("bmd,hed->bhme", source, w_k) + b_k  # (b, h, m, head_dim)
        v = torch.einsum("bmd,hed->bhme", source, w_v) + b_v  # (b, h, m, head_dim)
        similar = torch.einsum("bhie,bhje->bhij", _features(q), _features(k))  # (b, h, n, m)
        if attn_mask is not None:
            similar = torch.where(without_empty_rows(attn_mask), similar, 0.0)
        if self.causal:
            similar = torch.where(place <= at[:, None], similar, 0.0)
        weights = similar / similar.sum(-1, keepdim=True)  # (b, h, n, m), rows sum to 1
        w_o = self.out_proj.weight.view(d, self.num_heads, head_dim)  # (d, h, head_dim)
        heads = torch.einsum("bhij,bhje->bhie", weights, v)  # (b, h, n, head_dim)
        return torch.einsum("bhie,dhe->bid", heads, w_o) + self.out_proj.bias  # (b, n, d)


class CausalLinearAttentionReference(LinearAttentionReference):
    """The same, with no token seeing a later one."""

    causal = True


def _features(x: Tensor) -> Tensor:
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())
