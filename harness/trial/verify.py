"""Correct before fast: outputs and gradients of a small case against a float64 reference."""

from typing import Any

import torch
from torch import Tensor, nn

from harness import catalog
from harness.case import Case
from harness.trial.build import Workload, build, build_layer
from harness.trial.decoding import check_decoding
from harness.trial.given import counted, given
from harness.trial.relative import WrongResult, check, tolerance

_ITSELF = "itself in float64"
# Held against itself a layer can only show that it loses digits, not that its formula is wrong. How many it may lose is
# its own matter: a scan in log space, right as it is, loses one or two more than sums of products do.
_LENIENT = 32


def verify(case: Case, seed: int) -> dict[str, Any]:
    """Errors of the outputs, and where there is a backward pass of every gradient, relative to the reference's norm.

    The reference is the impl's own specification where there is one; else the layer itself in float64,
    which shows instability and garbage, not a wrong formula. In `decode`, what comes out step by step is held against
    what the reference gives for all tokens at once. Outputs of padding are anybody's. Raises WrongResult with the
    first error beyond the tolerance.

    Where a layer has kinks, as ReLU is one (`kinks = True`), rounding puts a share ε of its units on the other side of
    theirs, whose gradients are then another's: √ε of the norm.
    """
    work = build(case, seed)
    reference, against = _reference(case, work.layer)
    rounding = tolerance(work.x.dtype, case.d_model)
    limit = rounding * (_LENIENT if against == _ITSELF else 1)
    result: dict[str, Any] = {"against": against, "tolerance": limit}
    if case.mode == "decode":
        return result | check_decoding(case, work, reference, seed, limit)
    torch.manual_seed(seed)
    y = _check_output(work.forward(), work.x)
    torch.manual_seed(seed)  # what the layer draws, as dropout does, it must draw for the reference too
    trains = work.gradient is not None
    inputs = [tensor.detach().double().requires_grad_(trains) for tensor in work.inputs]
    try:
        with torch.set_grad_enabled(trains):
            expected = _expected(reference, case, inputs)
    except RuntimeError as error:
        if against != _ITSELF:
            raise
        # Somebody's layer with a float32 constant inside is no worse for that; it can only be checked for less.
        if not y.isfinite().all():
            raise WrongResult("its output is not finite") from error
        return {"against": "nothing: it does not run in float64", "tolerance": limit, "output_error": None}
    real = counted(work.layer, case)
    wanted, got = (expected, y) if real is None else (expected * real, y * real)
    result["output_error"] = check("output", got, wanted, limit)
    if trains:
        kinks = against == _ITSELF or getattr(work.layer, "kinks", False)
        of_gradients = max(limit, rounding**0.5) if kinks else limit
        result["gradient_error"] = _check_gradients(work, y, reference, inputs, expected, of_gradients)
    return result


def _reference(case: Case, layer: nn.Module) -> tuple[nn.Module, str]:
    """The reference in float64 with the layer's weights, and its name."""
    reference_class, options = catalog.load_reference(case.impl), catalog.reference_options(case.impl)
    if reference_class is None:
        against = _ITSELF
        reference_class, options = catalog.load_class(case.impl), catalog.build_options(case.impl)
    else:
        against = reference_class.__name__
    reference = build_layer(reference_class, case, **options).to(case.device, torch.float64)
    reference.load_state_dict({name: value.double() for name, value in layer.state_dict().items()})
    reference.train(layer.training)
    return reference, against


def _expected(reference: nn.Module, case: Case, inputs: list[Tensor]) -> Tensor:
    """What the reference gives for an input, and a source if there is one."""
    x, source = inputs[0], inputs[1] if len(inputs) > 1 else None
    keywords = given(reference, case, source)
    prepare = getattr(reference, "prepare", None)
    return reference(x, **(keywords if prepare is None else prepare(x, **keywords)))


def _check_output(y: object, x: Tensor) -> Tensor:
    if not isinstance(y, Tensor):
        raise WrongResult(f"it returned a {type(y).__name__}, not a tensor")
    if y.shape != x.shape:
        raise WrongResult(f"it returned shape {tuple(y.shape)} for an input of shape {tuple(x.shape)}")
    return y


def _check_gradients(
    work: Workload, y: Tensor, reference: nn.Module, inputs: list[Tensor], expected: Tensor, limit: float
) -> float:
    """The largest error of a gradient. Raises WrongResult as `check` does, and where one does not arrive."""
    assert work.gradient is not None
    work.forget()
    y.backward(work.gradient)
    expected.backward(work.gradient.double())
    wanted = dict(reference.named_parameters())
    pairs = [(name, got, want) for name, got, want in zip(("input", "source"), work.inputs, inputs, strict=False)]
    pairs += [(name, parameter, wanted[name]) for name, parameter in work.layer.named_parameters()]
    worst = 0.0
    for name, got, want in pairs:
        if want.grad is None:
            continue
        if got.grad is None:
            raise WrongResult(f"no gradient reaches {name}")
        worst = max(worst, check(f"gradient of {name}", got.grad, want.grad, limit))
    return worst
