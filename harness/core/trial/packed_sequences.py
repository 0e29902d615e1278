"""Functions of packed sequences: all tokens of a batch in one dimension, without padding.

    f(q, k, v, cu_seqlens, max_seqlen, …)   q (t, h, D), k and v (t, g, D), t = Σ nᵢ

`cu_seqlens` (b+1,) holds the first token of each sequence, and t at the end. Kernels have one for queries and one for
keys (`cu_seqlens_q`, `cu_seqlens_k`), and the longest length as a number (`max_seqlen_q`). They are found by name:
those of flash-attn, `cu_seq_q` and `max_q` of `torch.nn.attention.varlen`, and the like.
"""

import re
from collections.abc import Callable, Iterable
from functools import wraps
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from harness.core.layers import layer_lookup
from harness.core.model.sequence_lengths import PACKED, PADDED, as_text, is_summed, real_lengths
from harness.core.model.sweep_axes import Case

from .layer_inputs import CUMULATIVE, LENGTHS, Input, letters_of

LAYOUT = "thd"  # as TransformerEngine calls it


def is_cumulative(parameter: str) -> bool:
    """Whether a parameter of this name takes the first token of each sequence."""
    return re.fullmatch(r"cu_?seq\w*", parameter) is not None


def is_longest(parameter: str) -> bool:
    """Whether a parameter of this name takes the length of the longest sequence."""
    return re.fullmatch(r"max_(seq_?len\w*|len\w*|q|k|kv)", parameter) is not None


def cumulative_inputs(parameters: Iterable[str]) -> tuple[Input, ...]:
    """The inputs for those of the parameters that take the first token of each sequence."""
    return tuple(Input(name, ("b+1",), "int32", False, CUMULATIVE) for name in filter(is_cumulative, parameters))


def is_function(layer: Any) -> bool:
    """Whether the layer, or its class, is made of a function (see `harness.core.trial.function_layer`)."""
    return hasattr(layer, "layout_hint")


def is_packed(layer: Any) -> bool:
    """Whether a layer, or its class, takes packed sequences: a shape of its inputs has the letter t.

    Decoding has one token of each sequence, and packs nothing.
    """
    return is_function(layer) and "t" in letters_of(layer.inputs) and not layer.decodes


def knows_lengths(layer: Any) -> bool:
    """Whether a layer needs no mask to hide padding: it gets packed sequences, or the lengths themselves."""
    return is_packed(layer) or (is_function(layer) and any(tensor.fill == LENGTHS for tensor in layer.inputs))


def passed_as(layer: Any, case: Case) -> str | None:
    """How the lengths of a case's sequences reach the layer; None if no sequence is shorter, and none is packed.

    A function that makes another form of packed sequences names it as `lengths_as`.
    """
    if is_packed(layer):
        return str(getattr(layer, "lengths_as", PACKED))
    return str(getattr(layer, "lengths_as", PADDED)) if case.is_padded else None


def lengths_facts(case: Case) -> dict[str, Any]:
    """How the lengths of the sequences reach the layer, and how many of the tokens are real."""
    way = passed_as(layer_lookup.load_class(case.impl), case)
    if way is None:
        return dict.fromkeys(("lengths_as", "real_tokens", "padding_share", "sequence_lengths"))
    lengths = real_lengths(case)
    passed = sum(lengths) if is_summed(way) else case.batch_size * case.seq_len
    return {
        "lengths_as": way,
        "real_tokens": sum(lengths),
        "padding_share": 1 - sum(lengths) / passed,
        "sequence_lengths": as_text(lengths),
    }


def per_sequence(function: Callable[..., Any], heads_first: bool) -> Callable[..., Tensor]:
    """Attention over (b, h, n, D), or (b, n, h, D), as a function of packed sequences: a call for each sequence.

    With `rows`, ascending places among all tokens, each call has its own of them, and a sequence without any has none.
    """

    @wraps(function)
    def call(
        q: Tensor, k: Tensor, v: Tensor, starts: Tensor, *others: Tensor, rows: Tensor | None = None, **keywords: Any
    ) -> Tensor:
        outputs = []
        for first, end in pairwise(starts.tolist()):
            passed = dict(keywords)
            if (mask := keywords.get("attn_mask")) is not None:  # of the longest sequence
                passed["attn_mask"] = mask[..., : end - first, : end - first]
            if rows is not None:
                inside = passed["rows"] = rows[(rows >= first) & (rows < end)] - first
                if not len(inside):
                    continue
                if mask is not None:
                    passed["attn_mask"] = passed["attn_mask"].index_select(-2, inside)
            parts = [tensor[first:end][None] for tensor in (q, k, v)]  # (1, nᵢ, h, D)
            parts = [part.transpose(1, 2) for part in parts] if heads_first else parts
            y = function(*parts, **passed)
            y = y[0] if isinstance(y, tuple | list) else y
            outputs.append((y.transpose(1, 2) if heads_first else y)[0])
        return torch.cat(outputs)  # (t, h, D)

    call.of_each_sequence = function if heads_first else None  # type: ignore[attr-defined]
    return call


def of_rows(
    attention: Callable[..., Tensor], rows: Tensor, q: Tensor, k: Tensor, v: Tensor, starts: Tensor, is_causal: bool
) -> Tensor:
    """The outputs of some tokens alone: `rows` (r,) in ascending order, and their queries (r, h, D) -> (r, h, D).

    `attention` takes (b, h, n, D) and a mask.
    """
    outputs = []
    for first, end in pairwise(starts.tolist()):
        inside = (rows >= first) & (rows < end)
        if not inside.any():
            continue
        parts = (tensor.transpose(0, 1)[None] for tensor in (q[inside], k[first:end], v[first:end]))
        mask = torch.arange(first, end, device=rows.device) <= rows[inside, None] if is_causal else None
        outputs.append(attention(*parts, attn_mask=mask)[0].transpose(0, 1))
    return torch.cat(outputs)
