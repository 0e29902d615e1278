"""Attention by torch's fused kernels, which never write the n × n scores to memory, and by `nn.MultiheadAttention`.

    softmax(Q Kᵀ / √head_dim) V   block by block, with a running maximum and sum

Sources of the kernels: Dao et al. 2022, "FlashAttention", algorithm 1 (`flash`); Rabe & Staats 2021, "Self-attention
Does Not Need O(n²) Memory" (`efficient`). Both are called through `scaled_dot_product_attention`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend
from torch.nn.functional import scaled_dot_product_attention

from impls.attention.plain import GroupedQueryParameters, ToldAttention


class ModuleAttention(nn.MultiheadAttention):
    """Torch's own `nn.MultiheadAttention`: (b, n, d) -> (b, n, d).

        MultiHead(x) = Concat(head_1 … head_h) W_o,   head_i = softmax(Q_i K_iᵀ / √head_dim) V_i

    Vaswani et al. 2017, section 3.2.2. This is the most common implementation of multi-head attention. The other
    attention layers take the names of their weights from it. The computation depends on how the module is called:

    - By default, the attention weights are returned. The module computes them from plain products and averages them
      over the heads.
    - Without weights, it runs one opaque operator if it can. This requires eval mode, an even number of heads, no
      gradients, and neither a float mask nor a source. On the CPU, the operator writes the scores to memory although
      they are unused.
    - In all other cases, it calls `scaled_dot_product_attention` and lets torch choose the kernel.
    """

    need_weights: ClassVar[bool] = False

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__(d_model, num_heads, batch_first=True)
        # Not zero: a layer that drops a bias must fail verification.
        nn.init.normal_(self.in_proj_bias, std=0.02)
        nn.init.normal_(self.out_proj.bias, std=0.02)

    def prepare(
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False, source: Tensor | None = None
    ) -> dict[str, Any]:
        """Convert the masks to the module's own kinds, which are very low where a query may *not* see a key.

        The masks are float tensors to be added to the scores. From a boolean mask, the module would build a float mask
        in every call.
        """
        given: dict[str, Any] = {} if source is None else {"source": source}
        if is_causal:
            seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril()
            return given | {"pairs": _added(seen, x.dtype), "is_causal": True}  # (n, n)
        if attn_mask is None:
            return given
        b, m = x.shape[0], (x if source is None else source).shape[1]
        if attn_mask.shape[1] == attn_mask.shape[2] == 1:
            return given | {"keys": _added(attn_mask[:, 0, 0].expand(b, m), x.dtype)}  # (b, m)
        if attn_mask.shape[0] == attn_mask.shape[1] == 1:
            return given | {"pairs": _added(attn_mask[0, 0].expand(x.shape[1], m), x.dtype)}  # (n, m)
        by_head = attn_mask.expand(b, self.num_heads, x.shape[1], m).flatten(0, 1)
        return given | {"pairs": _added(by_head, x.dtype)}  # (b·h, n, m)

    def forward(  # type: ignore[override]  # the module's own method takes queries, keys and values separately
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        source: Tensor | None = None,
        pairs: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Tensor:
        """Run the module. `pairs` and `keys` are the masks from `prepare`, computed here if missing."""
        if pairs is None and keys is None and (is_causal or attn_mask is not None):
            return self(x, **self.prepare(x, attn_mask, is_causal, source))
        source = x if source is None else source  # (b, m, d)
        y: Tensor = super().forward(
            x,
            source,
            source,
            key_padding_mask=keys,
            need_weights=self.need_weights,
            attn_mask=pairs,
            is_causal=is_causal,
        )[0]
        return y  # (b, n, d)

    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        """Return the weights of each head, as the module itself reports them: (b, n, d) -> (b, h, n, n).

        Rows sum to 1.
        """
        masks = self.prepare(x, attn_mask)
        weights = super().forward(
            x,
            x,
            x,
            key_padding_mask=masks.get("keys"),
            attn_mask=masks.get("pairs"),
            need_weights=True,
            average_attn_weights=False,
        )[1]
        assert weights is not None
        return weights  # (b, h, n, n)


class ModuleAttentionWithWeights(ModuleAttention):
    """The same, returning the weights as by default. They are computed, averaged over the heads, and dropped."""

    need_weights = True


def _added(seen: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 where a query may see a key and the lowest number elsewhere: with −∞, a row of no key would be NaN."""
    return torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill_(~seen, torch.finfo(dtype).min)


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
    """Return (b, h, n, head_dim), computed by one of the backends. Raises RuntimeError if none of them can run.

    Without this restriction, torch silently falls back to `math`, which writes the n × n scores to memory.
    `sdpa_kernel` forbids the fallback, but entering and leaving it takes longer than everything else around a small
    call.

    This function therefore first asks torch which kernel it would choose. The question uses the same arguments and the
    function by which `scaled_dot_product_attention` itself decides. If the answer is one of the backends, the call runs
    unchanged. If not, all other kernels are disabled for the call, by the same switches that `sdpa_kernel` uses.

    Torch is asked at every call, which takes less than a microsecond. A change of size or setting therefore never leads
    to another kernel.
    """
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


def grouped_attention(
    q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None, is_causal: bool, backends: Backends
) -> Tensor:
    """Return (b, h, n, head_dim) by one of the backends, with fewer heads of keys and values, each shared by a group.

    Not every fused kernel supports groups: on CUDA, flash does; the CPU kernel of older torch versions does not. If
    torch would choose a kernel that is not among the backends, keys and values are repeated in memory, once for every
    query head.
    """
    if torch._fused_sdp_choice(q, k, v, attn_mask, 0.0, is_causal, enable_gqa=True) in backends:
        return scaled_dot_product_attention(q, k, v, attn_mask, 0.0, is_causal, enable_gqa=True)
    group = q.shape[1] // k.shape[1]
    keys, values = (heads.repeat_interleave(group, dim=1) for heads in (k, v))  # (b, h, m, head_dim) each
    return pinned_attention(q, keys, values, attn_mask, is_causal, backends)


class FusedAttention(GroupedQueryParameters, ToldAttention):
    """(b, n, d) -> (b, n, d), by whichever fused kernel torch chooses, never by `math`: see `pinned_attention`.

    With fewer heads of keys and values than of queries, it is grouped-query attention, and multi-query attention with
    one. The KV cache, which decoding reads for every token, and the projections are then smaller. Scores and weighted
    sums cost the same.

    Advantage over `attention.chunked`: one kernel processes all blocks. Nothing between two blocks leaves the chip, and
    no block waits for Python.

    `supports` returns the reason if a case is known to be impossible. Other impossible cases raise RuntimeError.
    """

    backends: ClassVar[Backends] = FUSED

    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """Return the heads (b, h, n, head_dim), given keys and values (b, g, m, head_dim)."""
        attend = pinned_attention if self.num_kv_heads == self.num_heads else grouped_attention
        return attend(q, k, v, attn_mask, is_causal, self.backends)

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the case cannot run, or None.

        CUDA's fused kernels do not support float64; the CPU's kernel does.
        """
        if case.device == "cuda" and case.dtype == "float64":
            return "no fused attention kernel on CUDA computes in float64"
        return None


_GROUP = 4


class GroupedQueryAttention(FusedAttention):
    """The same with a quarter of the heads of keys and values by default: (b, n, d) -> (b, n, d).

    Raises ValueError if that is not a whole number of heads.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int = 0) -> None:
        super().__init__(d_model, num_heads, num_kv_heads or kv_heads_of(num_heads))

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the case cannot run, or None.

        By default, the number of heads must be divisible by 4. CUDA's fused kernels do not support float64.
        """
        if not case.num_kv_heads and case.num_heads % _GROUP:
            return f"num_heads={case.num_heads} is not divisible by the {_GROUP} queries that share a key and value"
        return FusedAttention.supports(case)


def kv_heads_of(num_heads: int) -> int:
    """Return a quarter of the heads. Raises ValueError if that is no whole number."""
    if num_heads % _GROUP:
        raise ValueError(f"num_heads={num_heads} is not divisible by {_GROUP}: give num_kv_heads")
    return num_heads // _GROUP


class Text(NamedTuple):
    """`tokens` (b, n, d) in preallocated memory, with the first `length` filled."""

    tokens: Tensor
    length: int

    def append(self, x: Tensor) -> "Text":
        """Return a text with t more tokens (b, t, d) in the same memory. The old text keeps its own `length`."""
        end = self.length + x.shape[1]
        self.tokens[:, self.length : end] = x
        return self._replace(length=end)

    def present(self) -> Tensor:
        """Return the filled tokens as a view: (b, length, d)."""
        return self.tokens[:, : self.length]


class UncachedAttention(FusedAttention):
    """Decoding without a cache: every new token repeats the whole forward pass over all tokens so far.

        y_t = Attention(x_1 … x_t)_t

    The baseline of Katharopoulos et al. 2020, "Transformers are RNNs", sections 4.2 and 4.3, in which softmax attention
    generates this way. The forward pass (b, n, d) -> (b, n, d) is that of `FusedAttention`. Comparing both shows what
    the KV cache saves: a token costs 8nd² + 4n²d here and 8d² + 4nd with the cache. The layer decodes over its own text
    only: with a source, nothing would be recomputed.
    """

    def start(self, batch_size: int, seq_len: int) -> Text:  # type: ignore[override]
        """Return an empty text with room for `seq_len` tokens."""
        return Text(self.in_proj_weight.new_zeros(batch_size, seq_len, self.in_proj_weight.shape[1]), 0)

    def step(self, x_t: Tensor, text: Text) -> tuple[Tensor, Text]:  # type: ignore[override]
        """Process one more token: (b, d) -> (b, d).

        The outputs of all tokens are computed, and the last one is returned.
        """
        text = text.append(x_t[:, None])
        return self.forward(text.present(), is_causal=True)[:, -1], text

    def prefill(self, x: Tensor, text: Text) -> Text:  # type: ignore[override]
        """Append t tokens (b, t, d) to the text. Nothing is computed."""
        return text.append(x)


# Attention pinned to one kernel each, for comparison: the kernel that the class names, or none. `math` is the fallback.

_HALF = ("float16", "bfloat16")
_AMPERE = (8, 0)


class FlashAttention(FusedAttention):
    """Attention by the flash kernel only."""

    backends = FLASH

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the case cannot run, or None.

        The CPU kernel supports everything. The CUDA kernel supports half precision, heads of up to 256, and no mask
        except a causal one.
        """
        if case.device != "cuda":
            return None
        if case.mask == "padding":
            return "the flash kernel on CUDA takes no mask but a causal one"
        if case.d_model // case.num_heads > 256:
            return f"the flash kernel on CUDA takes heads of up to 256, not {case.d_model // case.num_heads}"
        return _half_on_ampere("flash", case)


class EfficientAttention(FusedAttention):
    """Attention by the memory-efficient kernel only."""

    backends = EFFICIENT

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the case cannot run, or None. CUDA only, no float64; bfloat16 needs compute capability 8.0."""
        if case.device != "cuda":
            return "the memory-efficient attention kernel runs on CUDA only"
        if case.dtype == "float64":
            return "the memory-efficient attention kernel does not compute in float64"
        return _half_on_ampere("memory-efficient", case) if case.dtype == "bfloat16" else None


class CudnnAttention(FusedAttention):
    """Attention by cuDNN's kernel only."""

    backends = CUDNN

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return why the case cannot run, or None.

        CUDA only, in half precision, with heads that are a multiple of 8.
        """
        if case.device != "cuda":
            return "cuDNN's attention kernel runs on CUDA only"
        if (case.d_model // case.num_heads) % 8:
            return f"cuDNN's attention kernel takes heads of a multiple of 8, not {case.d_model // case.num_heads}"
        return _half_on_ampere("cuDNN", case)


class MathAttention(FusedAttention):
    """Attention by the fallback that the other classes forbid: plain products, with the n × n scores in memory."""

    backends = MATH

    @staticmethod
    def supports(case: Any) -> str | None:
        """Return None: every case is supported on every device."""
        return None


def _half_on_ampere(kernel: str, case: Any) -> str | None:
    if case.dtype not in _HALF:
        return f"the {kernel} attention kernel on CUDA computes in {' or '.join(_HALF)}, not in {case.dtype}"
    if torch.cuda.is_available() and torch.cuda.get_device_capability() < _AMPERE:
        return f"the {kernel} attention kernel needs a GPU of compute capability 8.0 or more for {case.dtype}"
    return None
