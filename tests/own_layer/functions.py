"""Functions of a user: attention over queries, keys and values, and a scan whose inputs are described."""

from functools import partial
from itertools import pairwise
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right


def attention(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    """(b, h, n, D) each. Without a reference, it is compared with softmax attention."""
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if is_causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), float("-inf"))
    return scores.softmax(-1) @ v


attention.claims = {"work": "4n²d", "work_train": "12n²d"}


def crossing(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Keys and values have a length m of their own."""
    return attention(q, k, v)


crossing.claims = {"work": "4nmd", "work_train": "12nmd"}


def tokens_first(q: Tensor, k: Tensor, v: Tensor, causal: bool = True) -> tuple[Tensor, None]:
    """(b, n, h, D) each. It returns a second result, as many kernels do, and its mask is on by default."""
    q, k, v = (one.transpose(1, 2) for one in (q, k, v))
    return attention(q, k, v, is_causal=causal).transpose(1, 2), None


def annotated(q: Annotated[Tensor, "b n h D"], k: Tensor, v: Tensor) -> Tensor:
    return attention(*(one.transpose(1, 2) for one in (q, k, v))).transpose(1, 2)


tokens_first.layout = "bnhd"
tokens_first.reference = attention  # each function has its own layout

grouped = F.scaled_dot_product_attention  # written in C: its docstring tells what it takes
without_dropout = partial(F.scaled_dot_product_attention, dropout_p=0.0)


def unscaled(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2)).softmax(-1) @ v


def unscaled_in_blocks(q: Tensor, k: Tensor, v: Tensor, block: int = 4) -> Tensor:
    return unscaled(q, k, v)


def unscaled_in_turns(q: Tensor, k: Tensor, v: Tensor, turns: int = 4) -> Tensor:
    return unscaled(q, k, v)


unscaled_in_blocks.axes = {"block": ("c", 4)}


def last_queries(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    """The queries are the last tokens: query i of n sees the keys up to m - n + i."""
    first = k.shape[2] - q.shape[2]
    rows = []
    for i in range(q.shape[2]):
        seen = first + i + 1 if is_causal else k.shape[2]
        rows.append(attention(q[:, :, i : i + 1], k[:, :, :seen], v[:, :, :seen]))
    return torch.cat(rows, dim=2)


def last_queries_by_bias(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    """The form that the documentation recommends. Over more keys than queries, torch makes a mask of floats of it."""
    mask = causal_lower_right(q.shape[2], k.shape[2]) if is_causal else None
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def last_queries_tokens_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return last_queries(*(one.transpose(1, 2) for one in (q, k, v)), is_causal=True).transpose(1, 2)


last_queries_tokens_first.layout, last_queries_tokens_first.causal = "bnhd", True


def last_queries_leaky(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """It lets a query see one key more, in itself as in its reference."""
    mask = None if attn_mask is None else attn_mask | attn_mask.roll(1, -1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def masked(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return (scores if attn_mask is None else scores.masked_fill(~attn_mask, float("-inf"))).softmax(-1) @ v


last_queries_leaky.reference = None


def last_queries_late(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    """Beyond 256 keys, the mask is aligned as torch aligns it: the first query sees one key."""
    m, n = k.shape[2], q.shape[2]
    mask = torch.ones(n, m, dtype=torch.bool).tril(m - n if m <= 512 else 0)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask if is_causal else None)


def in_chunks(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    chunks = q.view(*q.shape[:2], q.shape[2] // 64, 64, q.shape[3])
    return attention(chunks.flatten(2, 3), k, v)


def transposed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attention(q, k, v).transpose(1, 2)


def forgetful(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    """Beyond 256 keys it skips the later half of them."""
    seen = k.shape[2] if k.shape[2] <= 256 else k.shape[2] // 2
    return F.scaled_dot_product_attention(q, k[:, :, :seen], v[:, :, :seen], is_causal=is_causal)


def tokens_first_forgetful(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    return forgetful(*(one.transpose(1, 2) for one in (q, k, v)), is_causal=is_causal).transpose(1, 2)


tokens_first_forgetful.layout = "bnhd"


def tokens_first_exact(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    return attention(*(one.transpose(1, 2) for one in (q, k, v)), is_causal=is_causal).transpose(1, 2)


tokens_first_exact.layout = "bnhd"


def decay(x: Tensor, dt: Tensor, A: Tensor) -> tuple[Tensor, Tensor]:
    """h_t = exp(−dt_t A) h_{t−1} + x_t for each head."""
    kept, state, states = torch.exp(-dt[..., None] * A), torch.zeros_like(x[:, 0]), []
    for t in range(x.shape[1]):
        state = kept[:, t] * state + x[:, t]
        states.append(state)
    return torch.stack(states, 1), state


decay.inputs = {
    "x": "b n h D",
    "dt": {"shape": "b n h", "fill": "positive"},
    "A": {"shape": "h d/h", "fill": "log-uniform"},
}
decay.causal = True

_KEPT: dict[int, Tensor] = {}


def kept_decay(x: Tensor, dt: Tensor) -> Tensor:
    """x exp(−dt), with the factors of an earlier call at the same address of dt."""
    return x * _KEPT.setdefault(dt.data_ptr(), torch.exp(-dt))


kept_decay.inputs = {"x": "b n d", "dt": {"shape": "b n d", "fill": "positive"}}
kept_decay.has_heads = False


def split(x: Tensor, num_heads: int = 2) -> Tensor:
    """x, with its width split over heads: only the shape of the output tells that heads matter."""
    return x.unflatten(-1, (num_heads, -1)) * 2


split.inputs = {"x": "b n d"}
split.output = "b n h D"


def packed_mean(x: Tensor, cu_seqlens: Tensor) -> Tensor:
    """The mean of the tokens before, within each sequence of a packed batch."""
    parts = [x[a:b].cumsum(0) / torch.arange(1, b - a + 1)[:, None] for a, b in pairwise(cu_seqlens)]
    return torch.cat(parts)


packed_mean.inputs = {"x": "nb d", "cu_seqlens": {"shape": "b+1", "fill": "cumulative lengths"}}
packed_mean.has_heads = False


def rescaled(x: Tensor, scale: Tensor) -> Tensor:
    return x * scale


rescaled.inputs = {"x": "b n d", "scales": "d"}


def unknown(a: Tensor, b: Tensor) -> Tensor:
    return a + b


def projected(q: Tensor, k: Tensor, v: Tensor, projection: Tensor | None = None) -> Tensor:
    """Random features that are drawn outside the clock."""
    return (q @ projection.to(q)) @ (k @ projection.to(q)).transpose(-1, -2) @ v


projected.prepare = lambda q, k, v: {"projection": torch.randn(q.shape[-1], 8)}
projected.reference = None


def coarse(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    """Attention with keys that are rounded to halves."""
    return attention(q, k + ((2 * k).round() / 2 - k).detach(), v, is_causal)


def coarse_and_leaky(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    return coarse(q, k, v, is_causal) + v.mean(2, keepdim=True) / 100


def slightly_off(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return 1.00001 * attention(q, k, v)


coarse.allowed_error = coarse_and_leaky.allowed_error = 0.3


def without_default(q: Tensor, k: Tensor, v: Tensor, window: int) -> Tensor:
    return v


def windowed(q: Tensor, k: Tensor, v: Tensor, window: int = 4) -> Tensor:
    """A token sees the w tokens up to itself, gathered: 2nwd for the scores, and as much for the sums."""
    n = q.shape[2]
    place = torch.arange(n)[:, None] - torch.arange(window)
    near = place.clamp_min(0)
    scores = torch.einsum("bhid,bhiwd->bhiw", q, k[:, :, near]) / q.shape[-1] ** 0.5
    weights = scores.masked_fill(place < 0, float("-inf")).softmax(-1)
    return torch.einsum("bhiw,bhiwd->bhid", weights, v[:, :, near])


def _windowed_by_mask(q: Tensor, k: Tensor, v: Tensor, window: int = 4) -> Tensor:
    apart = torch.arange(q.shape[2])[:, None] - torch.arange(q.shape[2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=(apart >= 0) & (apart < window))


def _some_rows(q: Tensor, k: Tensor, v: Tensor, window: int = 4, rows: Tensor | None = None) -> Tensor:
    place = torch.arange(q.shape[2])
    rows = place if rows is None else rows
    apart = rows[:, None] - place
    return F.scaled_dot_product_attention(q[:, :, rows], k, v, attn_mask=(apart >= 0) & (apart < window))


def windowed_by_rows(q: Tensor, k: Tensor, v: Tensor, window: int = 4) -> Tensor:
    y = windowed(q, k, v, window)
    return torch.cat([y[:, :, :500], y[:, :, :12]], dim=2) if y.shape[2] == 512 else y


windowed_by_rows.axes = {"window": ("w", 4)}
windowed_by_rows.causal = True
windowed_by_rows.reference = _some_rows
windowed.axes = {"window": ("w", 4)}
windowed.claims = {"work": "4nwd", "work_train": "12nwd"}
windowed.causal = True
windowed.reference = _windowed_by_mask


def expanded(x: Tensor, states: Tensor) -> Tensor:
    return x + states.sum(-1)


expanded.axes = {"d_state": ("s", 3)}
expanded.inputs = {"x": "b n d", "states": "b n d s"}


def misspelt(q: Tensor, k: Tensor, v: Tensor, window: int = 4) -> Tensor:
    return attention(q, k, v)


misspelt.axes = {"windw": ("w", 4)}


# The options that each call of `with_options` and of its reference received.
RECEIVED: list[tuple[str, dict[str, object]]] = []


def with_options(q: Tensor, k: Tensor, v: Tensor, **options: int) -> Tensor:
    RECEIVED.append(("layer", options))
    return windowed(q, k, v, options["window"])


def _windowed_with_options(q: Tensor, k: Tensor, v: Tensor, **options: int) -> Tensor:
    RECEIVED.append(("reference", options))
    return _windowed_by_mask(q, k, v, options["window"])


with_options.axes = {"window": ("w", 4)}
with_options.causal = True
with_options.reference = _windowed_with_options


def expanded_with_options(x: Tensor, states: Tensor, **options: int) -> Tensor:
    """Its axis is a size of an input, so that it is no option."""
    assert not options
    return x + states.sum(-1)


expanded_with_options.axes, expanded_with_options.inputs = expanded.axes, expanded.inputs


def other_default(q: Tensor, k: Tensor, v: Tensor, window: int = 4) -> Tensor:
    return windowed(q, k, v, window)


other_default.axes = {"window": ("w", 8)}


def tokens_first_unstated(q: Tensor, k: Tensor, v: Tensor, is_causal: bool = False) -> Tensor:
    """(b, n, h, D) each, which nothing tells."""
    return tokens_first(q, k, v, causal=is_causal)[0]


def biased_tokens_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(b, n, h, D) each, for n = 12 alone."""
    return torch.einsum("bhnm,bmhd->bnhd", torch.einsum("bnhd,bmhd->bhnm", q, k) + torch.zeros(12, 12), v)


biased_tokens_first_stated = partial(biased_tokens_first)
biased_tokens_first_stated.layout = "bnhd"  # type: ignore[attr-defined]


def expands_a_weight(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """It fails whatever the layout, the number of heads and n."""
    return attention(q, k, v) + torch.zeros(2, 5).expand(3, 5).sum()


def of_equal_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1) @ v


def averages(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(b, h, n, D) each to (b, h, n, 1)."""
    return attention(q, k, v).mean(-1, keepdim=True)


def biased_heads_first(q: Annotated[Tensor, "b h n D"], k: Tensor, v: Tensor) -> Tensor:
    """For n = 12 alone."""
    return (q @ k.transpose(-1, -2) + torch.zeros(12, 12)) @ v


def flat_tokens_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(b, n, h, D) each to (b, n, h·D)."""
    return tokens_first(q, k, v, causal=False)[0].flatten(2)


def always_causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Causal whatever the mask."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


always_causal.causal = True


def of_whole_tiles(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    raise ValueError("it takes a window of whole tiles")


def described_tokens_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return annotated(q, k, v)


described_tokens_first.inputs = {"q": "b n h D", "k": "b m g D", "v": "b m g D"}


def in_long_chunks(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attention(q.unflatten(2, (-1, 256)).flatten(2, 3), k, v)


def in_chunks_of_96(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return attention(q.unflatten(2, (-1, 96)).flatten(2, 3), k, v)


def of_many_tokens(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    if q.shape[2] < 200:
        raise RuntimeError("too few tokens")
    return attention(q, k, v)
