"""What a layer does with a sequence, not what it costs: its attention weights and how far back its gradient reaches."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from harness.core.layers import layer_lookup
from harness.core.model.sweep_axes import Case
from harness.core.trial.layer_protocol import input_width, inputs_of, is_function, what_supports_says
from harness.core.trial.result_checks import WrongResult, in_float64, tolerance
from harness.core.trial.sandbox import Answer
from harness.core.trial.workload import Unsupported, build, build_layer


def has_own_weights(layer: nn.Module, case: Case, seed: int) -> bool:
    """Return whether the layer's weights are its own, for example learned weights that it loads, and not drawn.

    They are its own if another seed gives the same weights as `seed`. A layer without weights has none of its own.
    """
    torch.manual_seed(seed + 1)
    other = build_layer(layer_lookup.load_class(case.impl), case, **layer_lookup.build_options(case.impl)).state_dict()
    mine = layer.state_dict()
    return bool(mine) and all(torch.equal(value.to(other[name]), other[name]) for name, value in mine.items())


def attention_map(case: Case, seed: int, words: Sequence[int]) -> Answer:
    """Return the attention weights of the layer for a sequence of words, which are vectors at positions.

        a_ij = softmax_j(q_i · k_j / √head_dim),   x_i = vector(word_i) + PE(i)

    Vaswani et al. 2017, sections 3.2.1 and 3.5. The seed draws the layer's weights, unless the layer loads its own. A
    layer with drawn weights has learned nothing, and attends to words at random.

    - `weights`: one n × n matrix per head.
    - `row_error`: the largest difference of a row's sum from 1.
    - `own_weights`: whether the layer brings its own weights, for any seed.

    `words` holds a number for each word, which draws its vector: the same word gets the same vector. Raises Unsupported
    if the layer provides no attention matrix for the case. Raises WrongResult if the matrix is no attention: a row's
    sum is not 1, or a token attends to later ones despite the mask.
    """
    layer_class = layer_lookup.load_class(case.impl)
    if not callable(getattr(layer_class, "attention_weights", None)):
        raise Unsupported("it has no method attention_weights(x, attn_mask) to look at")
    if hasattr(layer_class, "supports") and (reason := what_supports_says(layer_class, case)):
        raise Unsupported(reason)
    torch.manual_seed(seed)
    layer: Any = build_layer(layer_class, case, **layer_lookup.build_options(case.impl)).eval()
    width, generators = case.d_model * input_width(layer_class), map(torch.Generator().manual_seed, words)
    x = torch.stack([torch.randn(width, generator=generator) for generator in generators])[None]  # (1, n, d)
    n = len(words)
    with torch.no_grad():
        from impls.blocks.blocks import sinusoids  # here: other commits of the layers may lack it

        x = x + sinusoids(n, x)
        causal = {"attn_mask": torch.ones(n, n, dtype=torch.bool).tril()[None, None]}
        weights = layer.attention_weights(x, **(causal if case.mask == "causal" else {}))
    error = _row_error(weights, n)
    if case.mask == "causal" and weights.triu(1).any():
        raise WrongResult("its attention_weights look ahead in spite of the mask")
    return {"weights": weights[0].tolist(), "row_error": error, "own_weights": has_own_weights(layer, case, seed)}


def _row_error(weights: Any, n: int) -> float:
    """Return the largest difference of a row's sum from 1.

    Raises WrongResult beyond rounding, and for any other shape.
    """
    if not isinstance(weights, Tensor):
        raise WrongResult(f"its attention_weights returned a {type(weights).__name__}, not a tensor")
    if weights.shape[:1] + weights.shape[2:] != (1, n, n):
        raise WrongResult(f"its attention_weights returned shape {tuple(weights.shape)}, not (1, heads, {n}, {n})")
    error = (weights.double().sum(-1) - 1).abs().max().item()
    if not error <= tolerance(weights.dtype, n):
        raise WrongResult(f"rows of its attention_weights do not sum to 1: one is off by {error:.1e}")
    return error


# Number of features of h_n differentiated at once, each in its own copy of the sequence.
_MOST_AT_ONCE = 32


def gradient_reach(case: Case, seed: int) -> Answer:
    """Return the size of ∂h_n/∂x_t, the gradient of the last output, as `norms` by distance n − t = 0, 1, … n − 1.

        ‖∂h_n/∂x_t‖² = Σ_i ‖∂h_{n,i}/∂x_t‖²     (Frobenius)

    In a recurrent layer, ∂h_n/∂x_t is a product of n − t Jacobians. It shrinks or grows as a power of their size: the
    vanishing and the exploding gradient (Bengio et al. 1994; Pascanu et al. 2013, section 2). In attention, every
    position is one step away.

    Also return `own_weights`: whether the layer brings its own weights. The seed draws weights and input. The case must
    be one of `train`. Sequences of a batch must not see one another. Raises Unsupported as `build` does, and
    WrongResult if a gradient is not finite.
    """
    layer_class = layer_lookup.load_class(case.impl)
    if is_function(layer_class) and len(inputs_of(layer_class, case)) > 1:
        raise Unsupported("it is a function of several inputs, and gradients are taken of a single one, (b, n, d)")
    at_once = min(case.d_model, _MOST_AT_ONCE)
    work = build(replace(case, batch_size=at_once), seed)
    work.layer.eval()  # without dropout
    with torch.no_grad():
        for tensor in work.inputs:
            tensor[:] = tensor[:1].clone()
    with in_float64(case):
        last = work.forward()[:, -1]  # (at_once, d)
        norms = last.new_zeros(case.seq_len)
        for first in range(0, case.d_model, at_once):
            chosen = torch.zeros_like(last)
            features = torch.arange(first, min(first + at_once, case.d_model))
            chosen[features - first, features] = 1
            (rows,) = torch.autograd.grad(last, work.x, chosen, retain_graph=True)  # (at_once, n, width of x)
            norms = torch.hypot(norms, _norm(rows))
    if not norms.isfinite().all():
        raise WrongResult("its gradient is not finite")
    return {"norms": norms.flip(0).tolist(), "own_weights": has_own_weights(work.layer, case, seed)}


def _norm(rows: Tensor) -> Tensor:
    """Return the norm over all dimensions except tokens: (·, n, d) -> (n,).

    Each token's gradients are scaled first, because squares of small numbers would underflow to 0.
    """
    largest = rows.abs().amax(dim=(0, 2))  # (n,)
    unit = torch.where(largest > 0, largest, 1.0)[:, None]  # (n, 1)
    return largest * (rows / unit).square().sum(dim=(0, 2)).sqrt()
