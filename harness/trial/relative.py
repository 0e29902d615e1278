"""How far a result may be from what it must be, and the error where it is farther."""

import torch
from torch import Tensor


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


def check(what: str, got: Tensor, want: Tensor, limit: float) -> float:
    """‖got − want‖ / ‖want‖. Raises WrongResult where it is beyond `limit`, or not a number."""
    scale = want.norm().item()
    error = (got.detach().double() - want.detach()).norm().item() / (scale if scale > 0 else 1.0)
    if error != error or error == float("inf"):
        raise WrongResult(f"{what} is not finite")
    if not error <= limit:
        raise WrongResult(f"{what} is off by {error:.1e} of its norm, where rounding explains {limit:.1e}")
    return error
