"""Correct before fast: outputs and gradients of a small case against a float64 reference."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from harness import catalog
from harness.case import Case
from harness.trial.build import Workload, build, build_layer
from harness.trial.contract import output_dtype, refusal, to_verify
from harness.trial.decoding import check_decoding
from harness.trial.given import counted, given
from harness.trial.kept_results import check_repeated_call
from harness.trial.masking import check_mask
from harness.trial.relative import WrongResult, check, check_output, tolerance
from harness.trial.second_input import check_second_input

_ITSELF = "itself in float64"
# Held against itself a layer can only show that it loses digits, not that its formula is wrong. How many it may lose is
# its own matter: a scan in log space, right as it is, loses one or two more than sums of products do.
_LENIENT = 32
# But nothing that is off by more of its norm is explained by rounding: of bfloat16, 32 times the rounding is twice the
# norm, and zeros would do.
_MOST = 0.1
_HALF = ("bfloat16", "float16")


def verify(case: Case, seed: int) -> dict[str, Any]:
    """Errors of the case as `_verify` gives them, or of one like it that the layer takes: `verified`.

    Of a case in half precision, those of its twin in float32 are looked at first, since what half precision rounds away
    could hide a token that is not right. Where the layer computes in half precision alone there is no such twin.
    """
    case = to_verify(catalog.load_class(case.impl), case)
    if case.dtype in _HALF:
        _verify_twin(replace(case, dtype="float32"), seed)
    return _verify(case, seed) | {"verified": case.as_dict()}


def _verify_twin(twin: Case, seed: int) -> None:
    """Raises WrongResult as `_verify` does. That a layer has no float32 is no fault of its half precision."""
    if refusal(catalog.load_class(twin.impl), twin) is not None:
        return
    torch.set_grad_enabled(True)
    try:
        _verify(twin, seed)
    except WrongResult:
        raise
    except Exception:
        # Kernels for GPUs are often of half precision alone, and say so in exceptions of any kind, if in no `supports`.
        # What else can have gone wrong here goes wrong again below, in the precision that was asked for.
        if not catalog.is_foreign(twin.impl):
            raise
    finally:
        torch.set_grad_enabled(True)


def _verify(case: Case, seed: int) -> dict[str, Any]:
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
    dtype = output_dtype(work.layer, case.dtype)
    rounding = max(tolerance(getattr(torch, name), case.d_model) for name in (case.dtype, dtype))
    limit = max(rounding, min(_LENIENT * rounding, _MOST)) if against == _ITSELF else rounding
    result: dict[str, Any] = {"against": against, "tolerance": limit}
    if case.mode == "decode":
        result |= check_decoding(case, work, reference, seed, limit)
        check_repeated_call(work, seed)
        return result
    trains = work.gradient is not None
    # Copied before the call: a layer may change its input.
    inputs = [tensor.detach().to(torch.float64, copy=True).requires_grad_(trains) for tensor in work.inputs]
    torch.manual_seed(seed)
    y = check_output(work.forward(), work.x, case.d_model, dtype)
    torch.manual_seed(seed)  # what the layer draws, as dropout does, it must draw for the reference too
    try:
        with torch.set_grad_enabled(trains):
            expected = _expected(reference, case, inputs)
    except Exception as error:  # of any kind: a compiler of kernels has its own
        if against != _ITSELF:
            raise
        # Somebody's layer with a float32 constant inside is no worse for that; it can only be checked for less.
        if not y.isfinite().all():
            raise WrongResult("its output is not finite") from error
        check_repeated_call(work, seed)
        return {"against": "nothing: it does not run in float64", "tolerance": limit, "output_error": None}
    real = counted(work.layer, case)
    # Not a product: padding may come out as no number at all.
    wanted, got = (expected, y) if real is None else (torch.where(real, one, 0) for one in (expected, y))
    result["output_error"] = check("output", got, wanted, limit)
    if trains:
        kinks = against == _ITSELF or getattr(work.layer, "kinks", False)
        of_gradients = max(limit, rounding**0.5) if kinks else limit
        pairs = _gradients(work, y, reference, inputs, expected)
        if case.mode == "backward":  # the call that is timed goes back through one graph again and again
            pairs += [pair for _ in range(2) for pair in _again(work, pairs)]
        errors = (check(f"gradient of {name}", got, want, of_gradients) for name, got, want in pairs)
        result |= {"gradient_error": max(errors, default=0.0), "gradient_tolerance": of_gradients}
    check_repeated_call(work, seed)
    # Last: they change the input, on which the graph of `backward` rests.
    another, _ = _reference(case, work.layer)  # one that has kept nothing either
    check_second_input(work, lambda inputs: _expected(another, case, inputs), real, seed, limit)
    check_mask(case, work, seed, limit)
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


def _gradients(
    work: Workload, y: Tensor, reference: nn.Module, inputs: list[Tensor], expected: Tensor
) -> list[tuple[str, Tensor, Tensor]]:
    """(name, gradient, what it must be) of inputs and weights. Raises WrongResult where one does not arrive."""
    assert work.gradient is not None
    work.forget()
    y.backward(work.gradient)
    expected.backward(work.gradient.double())
    wanted = dict(reference.named_parameters())
    pairs = [(name, got, want) for name, got, want in zip(("input", "source"), work.inputs, inputs, strict=False)]
    pairs += [(name, parameter, wanted[name]) for name, parameter in work.layer.named_parameters()]
    found = []
    for name, got, want in pairs:
        if want.grad is None:
            continue
        if got.grad is None:
            raise WrongResult(f"no gradient reaches {name}")
        found.append((name, got.grad, want.grad))
    return found


def _again(work: Workload, pairs: list[tuple[str, Tensor, Tensor]]) -> list[tuple[str, Tensor, Tensor]]:
    """The same of one more call of the backward pass that is timed."""
    names = [*("input", "source")[: len(work.inputs)], *(name for name, _ in work.layer.named_parameters())]
    got = dict(zip(names, work.call(), strict=True))
    found = []
    for name, _, want in pairs:
        gradient = got[name]
        if gradient is None:
            raise WrongResult(f"no gradient reaches {name} in a backward pass alone")
        found.append((f"{name} in a repeated backward pass", gradient, want))
    return found
