"""Attention matrix of a layer, for words that are vectors at positions.

    a_ij = softmax_j(q_i · k_j / √head_dim),   x_i = vector(word_i) + PE(i)

Vaswani et al. 2017, sections 3.2.1 and 3.5. The seed draws the layer's weights, unless the layer loads its own. A layer
with drawn weights has learned nothing, and attends to words at random.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from harness import catalog
from harness.case import Case
from harness.trial.build import Unsupported, build_layer
from harness.trial.contract import input_width
from harness.trial.inside.own_weights import has_own_weights
from harness.trial.relative import WrongResult, tolerance
from impls.blocks.positions import sinusoids


def attention_map(case: Case, seed: int, words: Sequence[int]) -> dict[str, Any]:
    """Return the attention weights of the layer for a sequence of words.

    - `weights`: one n × n matrix per head.
    - `row_error`: the largest difference of a row's sum from 1.
    - `own_weights`: whether the layer brings its own weights, for any seed.

    `words` holds a number for each word, which draws its vector: the same word gets the same vector. Raises Unsupported
    if the layer provides no attention matrix for the case. Raises WrongResult if the matrix is no attention: a row's
    sum is not 1, or a token attends to later ones despite the mask.
    """
    layer_class = catalog.load_class(case.impl)
    reason = _refusal(layer_class, case)
    if reason:
        raise Unsupported(reason)
    torch.set_num_threads(case.threads)
    torch.manual_seed(seed)
    layer: Any = build_layer(layer_class, case, **catalog.build_options(case.impl)).eval()
    x = torch.stack([_vector(word, case.d_model * input_width(layer_class)) for word in words])[None]  # (1, n, d)
    n = len(words)
    with torch.no_grad():
        x = x + sinusoids(n, x)
        if case.mask == "causal":
            weights = layer.attention_weights(x, attn_mask=torch.ones(n, n, dtype=torch.bool).tril()[None, None])
        else:
            weights = layer.attention_weights(x)
    error = _row_error(weights, n)
    if case.mask == "causal" and weights.triu(1).any():
        raise WrongResult("its attention_weights look ahead in spite of the mask")
    own_weights = has_own_weights(layer, case, seed)
    return {"weights": weights[0].tolist(), "row_error": error, "own_weights": own_weights}


def _refusal(layer_class: Any, case: Case) -> str | None:
    if not callable(getattr(layer_class, "attention_weights", None)):
        return "it has no method attention_weights(x, attn_mask) to look at"
    supports = getattr(layer_class, "supports", None)
    return supports(case) if supports is not None else None


def _vector(word: int, d: int) -> Tensor:
    return torch.randn(d, generator=torch.Generator().manual_seed(word))


def _row_error(weights: Any, n: int) -> float:
    """Return the largest difference of a row's sum from 1.

    Raises WrongResult beyond rounding, and for any other shape.
    """
    if not isinstance(weights, Tensor):
        raise WrongResult(f"its attention_weights returned a {type(weights).__name__}, not a tensor")
    if weights.dim() != 4 or (weights.shape[0], *weights.shape[2:]) != (1, n, n):
        raise WrongResult(f"its attention_weights returned shape {tuple(weights.shape)}, not (1, heads, {n}, {n})")
    error = (weights.double().sum(-1) - 1).abs().max().item()
    if not error <= tolerance(weights.dtype, n):
        raise WrongResult(f"rows of its attention_weights do not sum to 1: one is off by {error:.1e}")
    return error
