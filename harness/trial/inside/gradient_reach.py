"""How far back the gradient of the last output reaches: the size of ∂h_n/∂x_t over the distance n − t.

    ‖∂h_n/∂x_t‖² = Σ_i ‖∂h_{n,i}/∂x_t‖²     (Frobenius)

In a recurrent layer, ∂h_n/∂x_t is a product of n − t Jacobians. It shrinks or grows as a power of their size: the
vanishing and the exploding gradient (Bengio et al. 1994; Pascanu et al. 2013, section 2). In attention, every position
is one step away.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from harness.case import Case
from harness.trial.build import build
from harness.trial.inside.own_weights import has_own_weights
from harness.trial.relative import WrongResult

# Number of features of h_n differentiated at once, each in its own copy of the sequence.
_MOST_AT_ONCE = 32


def gradient_reach(case: Case, seed: int) -> dict[str, Any]:
    """Return `norms` by distance 0, 1, … n − 1, and `own_weights`: whether the layer brings its own weights.

    The seed draws weights and input. The case must be one of `train`. Sequences of a batch must not see one another.
    Raises Unsupported as `build` does, and WrongResult if a gradient is not finite.
    """
    at_once = min(case.d_model, _MOST_AT_ONCE)
    work = build(replace(case, batch_size=at_once), seed)
    work.layer.eval()  # without dropout
    with torch.no_grad():
        for tensor in work.inputs:
            tensor.copy_(tensor[:1].expand_as(tensor).clone())
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
