"""How far a result may be from the expected one, and the error for a result beyond that distance."""

from collections.abc import Iterable

import torch
from torch import Tensor


class WrongResult(Exception):
    """Raised if the layer ran and its result is incorrect."""


def tolerance(dtype: torch.dtype, d_model: int) -> float:
    """The largest relative RMS error that rounding explains, the sum of two terms.

    The layer keeps intermediates in its dtype, and their roundings get 8 units in the last place. Sums over d terms get
    √d units of the accumulator, which is at least float32.
    """
    eps = torch.finfo(dtype).eps
    accumulator_eps = min(eps, torch.finfo(torch.float32).eps)
    return 8 * eps + d_model**0.5 * accumulator_eps


def largest_norm(tensors: Iterable[Tensor]) -> float:
    """The largest of the tensors' norms, 0 without any."""
    return max((tensor.norm().item() for tensor in tensors), default=0.0)


def scale_of(norm: float, largest: float, rounding: float) -> float:
    """The norm that an error is relative to: its own tensor's, or the `largest` of several if its own is zero.

    A gradient may be zero in exact arithmetic, as that of a key's bias before softmax. Sums of larger terms then leave
    a norm of at most `rounding` times the largest.
    """
    return (norm if norm > rounding * largest else largest) or 1.0


def check_error(what: str, got: Tensor, want: Tensor, limit: float, largest: float = 0.0) -> float:
    """The relative error ‖got − want‖ / ‖want‖. Raises WrongResult if it exceeds `limit` or is not finite.

    `largest` is the largest norm of the gradients that `want` is one of: see `scale_of`.
    """
    scale = scale_of(want.norm().item(), largest, limit)
    error = (got.detach().double() - want.detach()).norm().item() / scale
    if error != error or error == float("inf"):
        raise WrongResult(f"{what} is not finite")
    if not error <= limit:
        raise WrongResult(f"{what} is off by {error:.1e} of its norm, where rounding explains {limit:.1e}")
    return error


def check_output(y: object, x: Tensor, d_model: int, dtype: str) -> Tensor:
    """Return the output `y` of a call on `x`. The input has shape (b, n, ·), the output (b, n, d) and `dtype`.

    Raises WrongResult for any other output.
    """
    if not isinstance(y, Tensor):
        raise WrongResult(f"it returned a {type(y).__name__}, not a tensor")
    wanted = (*x.shape[:-1], d_model)
    if y.shape != wanted:
        but = f", where {wanted} is wanted" if x.shape != wanted else ""
        raise WrongResult(f"it returned shape {tuple(y.shape)} for an input of shape {tuple(x.shape)}{but}")
    return check_dtype(y, x, dtype)


def check_dtype(y: Tensor, x: Tensor, dtype: str) -> Tensor:
    """Return the output `y` for the input `x`. Raises WrongResult unless its dtype is `dtype`."""
    if y.dtype != getattr(torch, dtype):
        got, given = (str(tensor.dtype).removeprefix("torch.") for tensor in (y, x))
        raise WrongResult(
            f"it returned {got} for an input of {given}, where {dtype} is expected "
            "(a layer that returns another dtype declares `output_dtype`)"
        )
    return y


def check_finite(y: Tensor, real: Tensor | None) -> None:
    """Raise WrongResult if the output is not finite. `real` (b, n, 1) is False for padding, which is not checked."""
    finite = y.detach().isfinite()
    if not (finite if real is None else finite | ~real).all():
        raise WrongResult(f"its output is not finite at n = {y.shape[1]}")
