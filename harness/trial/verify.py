"""Correct before fast: outputs and gradients of a small case against a float64 reference."""

from typing import Any

import torch
from torch import Tensor, nn

from harness import catalog
from harness.case import Case
from harness.trial.build import build, build_layer

_ITSELF = "itself in float64"


class WrongResult(Exception):
    """The layer ran and its result is not what it must be."""


def tolerance(dtype: torch.dtype, d_model: int) -> float:
    """Relative RMS error that rounding explains.

    8 units in the last place for the roundings of intermediates, which the layer keeps in its dtype, and
    √d units of the accumulator, which is at least float32, for sums over d terms.
    """
    eps = torch.finfo(dtype).eps
    accumulator_eps = min(eps, torch.finfo(torch.float32).eps)
    return 8 * eps + d_model**0.5 * accumulator_eps


def verify(case: Case, seed: int) -> dict[str, Any]:
    """Errors of the outputs, and in `train` of every gradient, relative to the reference's norm.

    The reference is the impl's own specification where there is one; else the layer itself in float64,
    which shows instability and garbage, not a wrong formula. Raises WrongResult with the first error
    beyond the tolerance.
    """
    work = build(case, seed)
    reference_class = catalog.load_reference(case.impl)
    if reference_class is None:
        against = _ITSELF
        reference_class, options = catalog.load_class(case.impl), catalog.build_options(case.impl)
    else:
        against, options = reference_class.__name__, {}
    reference = build_layer(reference_class, case, **options).to(case.device, torch.float64)
    reference.load_state_dict({name: value.double() for name, value in work.layer.state_dict().items()})
    reference.train(work.layer.training)

    limit = tolerance(work.x.dtype, case.d_model)
    torch.manual_seed(seed)
    y = _check_output(work.call(), work.x)
    torch.manual_seed(seed)
    x = work.x.detach().double()
    try:
        with torch.set_grad_enabled(case.mode == "train"):
            expected = reference(x.requires_grad_(case.mode == "train"))
    except RuntimeError as error:
        if against != _ITSELF:
            raise
        # Somebody's layer with a float32 constant inside is no worse for that; it can only be checked for less.
        if not y.isfinite().all():
            raise WrongResult("its output is not finite") from error
        return {"against": "nothing: it does not run in float64", "tolerance": limit, "output_error": None}
    result = {"against": against, "tolerance": limit, "output_error": _check("output", y, expected, limit)}
    if case.mode == "train":
        # The call drew its own output gradient; the reference must be given the same one.
        result["gradient_error"] = _check_gradients(work.layer, work.x, reference, x, expected, limit, seed)
    return result


def _check_output(y: object, x: Tensor) -> Tensor:
    if not isinstance(y, Tensor):
        raise WrongResult(f"it returned a {type(y).__name__}, not a tensor")
    if y.shape != x.shape:
        raise WrongResult(f"it returned shape {tuple(y.shape)} for an input of shape {tuple(x.shape)}")
    return y


def _check_gradients(
    layer: nn.Module,
    x: Tensor,
    reference: nn.Module,
    x_reference: Tensor,
    expected: Tensor,
    limit: float,
    seed: int,
) -> float:
    gradient = torch.randn(x.shape).to(x)
    for leaf in (x, *layer.parameters()):
        leaf.grad = None
    torch.manual_seed(seed)  # what the layer draws, as dropout does, it drew so for the reference
    layer(x).backward(gradient)
    expected.backward(gradient.double())
    pairs = [("input", x, x_reference)]
    wanted = dict(reference.named_parameters())
    pairs += [(name, parameter, wanted[name]) for name, parameter in layer.named_parameters()]
    worst = 0.0
    for name, got, want in pairs:
        if want.grad is None:
            continue
        if got.grad is None:
            raise WrongResult(f"no gradient reaches {name}")
        worst = max(worst, _check(f"gradient of {name}", got.grad, want.grad, limit))
    return worst


def _check(what: str, got: Tensor, want: Tensor, limit: float) -> float:
    """‖got − want‖ / ‖want‖. Raises WrongResult where it is beyond `limit`, or not a number."""
    scale = want.norm().item()
    error = (got.detach().double() - want.detach()).norm().item() / (scale if scale > 0 else 1.0)
    if not error <= limit:
        raise WrongResult(f"{what} is off by {error:.1e} of its norm, where rounding explains {limit:.1e}")
    return error
