"""Check that a second input gets its own result, and not one kept from the first input."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from harness.trial.build import Workload
from harness.trial.relative import WrongResult, check


def check_second_input(
    work: Workload,
    expected: Callable[[list[Tensor]], Tensor],
    real: Tensor | None,
    seed: int,
    limit: float,
) -> None:
    """Raise WrongResult if the output for a second input is not the expected one.

    The second input is written over the first one, which is restored afterwards. `expected` computes the output from
    inputs in float64. `real` (b, n, 1) is False for padding. `limit` is the largest relative error.
    """
    before = [tensor.detach().clone() for tensor in work.inputs]
    second = [-first.roll((1, 1), dims=(1, 2)) for first in before]
    fill(work.inputs, second)
    torch.manual_seed(seed)
    got = work.forward().detach().clone()  # the output may share memory with an input, which is restored below
    fill(work.inputs, before)
    torch.manual_seed(seed)
    # Gradients are on or off as for the first input; otherwise a compiled reference would compile again.
    with torch.set_grad_enabled(work.gradient is not None):
        wanted = expected([tensor.to(torch.float64, copy=True) for tensor in second]).detach()
    if real is not None:
        wanted, got = (torch.where(real, one, 0) for one in (wanted, got))
    try:
        check("its output", got, wanted, limit)
    except WrongResult as error:
        raise WrongResult(f"with a second input {error}: does it keep anything of the first?") from None


def fill(tensors: Sequence[Tensor], values: Sequence[Tensor]) -> None:
    """Write the values into the tensors in place."""
    with torch.no_grad():
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)
