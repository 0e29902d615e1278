"""Attention layers that call the kernels of other packages: flash-linear-attention, flash-attn and xformers.

A layer imports its package when it is built. `supports` judges from the case and the installed packages, without
importing them.
"""

import importlib
from importlib.util import find_spec
from typing import Any, ClassVar

from torch import Tensor

from impls.attention.linear import LinearAttention, LinearState, averaged_features, feature_map
from impls.attention.plain import Attention


def refusal(case: Any, package: str, project: str, dtypes: tuple[str, ...]) -> str | None:
    """Return why `project`, imported as `package`, cannot run the case, or None if nothing prevents it.

    Reasons that installing the package would not solve come first. Elsewhere than on a GPU, the reason says both.
    """
    missing = find_spec(package) is None
    if case.device != "cuda":
        return f"{project} computes on device=cuda alone" + f"; there, first pip install {project}" * missing
    if case.dtype not in dtypes:
        return f"{project} computes in {' or '.join(dtypes)}, not in {case.dtype}"
    return f"{project} is not installed: pip install {project}" if missing else None


class FlaLinearAttention(LinearAttention):
    """Causal linear attention by the flash-linear-attention package, chunks in Triton kernels: (b, n, d) -> (b, n, d).

        y_t = φ(q_t)ᵀ S_t / φ(q_t)·z_t,   S_t = S_{t-1} + φ(k_t) v_tᵀ,   z_t = z_{t-1} + φ(k_t)

    Yang & Zhang 2024, "FLA"; Yang et al. 2023, "Gated Linear Attention Transformers with Hardware-Efficient Training",
    section 3. The layer computes the same as `attention.linear.chunked`, without writing the scores inside the chunks
    to memory. How it uses the package's functions:

    - They apply no feature map, so the layer applies φ itself.
    - `normalize` divides by φ(q_t)·z_t.
    - The package's factor of 1/√head_dim then appears above and below the fraction bar, and cancels.

    The kernels bypass torch's dispatcher. Their work cannot be observed, and none is claimed.
    """

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
        """Process one more token: (b, d) -> (b, d).

        The division comes before the kernel instead of after it: with the query φ(q_t) / φ(q_t)·z_t, the result needs
        no division. The layer keeps z itself, because releases of the package differ in how they carry z from token to
        token.
        """
        q, k, v = (heads.to(state.s.dtype) for heads in self.project(x_t[:, None]))  # (b, h, 1, head_dim) each
        q, k = feature_map(q), feature_map(k)
        z = state.z + k  # (b, h, 1, head_dim)
        q = q / (q * z).sum(-1, keepdim=True)
        q, k, v = (heads.transpose(1, 2) for heads in (q, k, v))  # (b, 1, h, head_dim) each
        heads, s = self.fused_recurrent_linear_attn(
            q, k, v, scale=1.0, initial_state=state.s, output_final_state=True, normalize=False
        )  # (b, 1, h, head_dim), (b, h, head_dim, head_dim)
        return self.merge(heads.transpose(1, 2).to(x_t.dtype))[:, 0], LinearState(s, z)


# The flash-attn package: its largest head, and the FLOPs of its kernels.
_LARGEST_HEAD = 256


def _pairs(q: Tensor, k: Tensor, causal: bool) -> int:
    """Return the number of computed query-key pairs over batch and heads, for queries (b, n, h, head_dim)."""
    b, n, h, _ = q.shape
    m = k.shape[1]
    # A causal mask is aligned at the bottom right, and is only used with n = m.
    return b * h * (n * (n + 1) // 2 if causal else n * m)


def _forward_flops(
    q: Tensor, k: Tensor, v: Tensor, dropout_p: float, softmax_scale: float, causal: bool, *rest: Any, **named: Any
) -> int:
    """FLOPs of the forward pass: two products, for scores and weighted sum."""
    return 4 * _pairs(q, k, causal) * q.shape[-1]


def _backward_flops(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attended: Tensor,
    softmax_lse: Tensor,
    dq: Tensor,
    dk: Tensor,
    dv: Tensor,
    dropout_p: float,
    softmax_scale: float,
    causal: bool,
    *rest: Any,
    **named: Any,
) -> int:
    """FLOPs of the backward pass: five products, including the recomputed scores."""
    return 10 * _pairs(q, k, causal) * q.shape[-1]


class FlashAttention(Attention):
    """Attention by the flash-attn package: (b, n, d) -> (b, n, d).

        softmax(Q Kᵀ / √head_dim) V   block by block, on the GPU's tensor cores

    Dao 2023, "FlashAttention-2". The algorithm is that of `attention.fused`, whose flash kernel is an earlier one of
    the same origin. This layer runs the installed release. `flash_attn_func` takes (b, n, h, head_dim), which is the
    memory layout of the projection's output, so no head has to be moved.
    """

    kernels: ClassVar[dict[str, Any]] = {
        "flash_attn::_flash_attn_forward": {"flops": _forward_flops, "depth": lambda *args, **named: 3},
        "flash_attn::_flash_attn_backward": {"flops": _backward_flops, "depth": lambda *args, **named: 4},
    }

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        self.flash_attn_func = importlib.import_module("flash_attn").flash_attn_func

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why a case cannot run, or None if nothing prevents it."""
        if case.d_model // case.num_heads > _LARGEST_HEAD:
            return f"flash-attn has heads of {_LARGEST_HEAD} at most, not {case.d_model // case.num_heads}"
        if case.mask == "padding":
            return "flash_attn_func takes no padding mask"
        return refusal(case, "flash_attn", "flash-attn", ("float16", "bfloat16"))

    def forward(  # type: ignore[override]  # the causal mask is the only one it takes
        self, x: Tensor, is_causal: bool = False, source: Tensor | None = None
    ) -> Tensor:
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        return self.merge(self.attend(q, k, v, is_causal))  # (b, n, d)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:  # type: ignore[override]
        """Return the heads (b, h, n, head_dim), given keys and values (b, h, m, head_dim)."""
        q, k, v = (heads.transpose(1, 2) for heads in (q, k, v))  # (b, n, h, head_dim), (b, m, h, head_dim) twice
        heads: Tensor = self.flash_attn_func(q, k, v, causal=is_causal)  # (b, n, h, head_dim)
        return heads.transpose(1, 2)  # (b, h, n, head_dim)


# xformers: head sizes must be a multiple of these numbers, because the kernels require multiples of 16 bytes.
_MULTIPLE_OF = {"float32": 4, "float16": 8, "bfloat16": 8}


class XformersAttention(Attention):
    """Attention by the xformers package, by the kernel that it expects to be fastest: (b, n, d) -> (b, n, d).

        softmax(Q Kᵀ / √head_dim) V   block by block

    Rabe & Staats 2021, "Self-attention Does Not Need O(n²) Memory". `memory_efficient_attention` takes (b, n, h,
    head_dim), and the causal mask as an object that it never writes out.
    """

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads)
        ops = importlib.import_module("xformers.ops")
        self.memory_efficient_attention = ops.memory_efficient_attention
        self.lower_triangular = ops.LowerTriangularMask()

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why a case cannot run, or None if nothing prevents it."""
        head_dim, multiple = case.d_model // case.num_heads, _MULTIPLE_OF.get(case.dtype, 1)
        if head_dim % multiple:
            return f"xformers has heads of a multiple of {multiple} in {case.dtype}, not of {head_dim}"
        if case.mask == "padding":
            return "its padding masks are of sequences laid end to end, which is another layout"
        return refusal(case, "xformers", "xformers", tuple(_MULTIPLE_OF))

    def forward(  # type: ignore[override]  # the causal mask is the only one it takes
        self, x: Tensor, is_causal: bool = False, source: Tensor | None = None
    ) -> Tensor:
        q, k, v = self.project(x, source)  # (b, h, n, head_dim), (b, h, m, head_dim) twice
        return self.merge(self.attend(q, k, v, is_causal))  # (b, n, d)

    def attend(self, q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:  # type: ignore[override]
        """Return the heads (b, h, n, head_dim), given keys and values (b, h, m, head_dim)."""
        q, k, v = (heads.transpose(1, 2) for heads in (q, k, v))  # (b, n, h, head_dim), (b, m, h, head_dim) twice
        mask = self.lower_triangular if is_causal else None
        heads: Tensor = self.memory_efficient_attention(q, k, v, attn_bias=mask)  # (b, n, h, head_dim)
        return heads.transpose(1, 2)  # (b, h, n, head_dim)
