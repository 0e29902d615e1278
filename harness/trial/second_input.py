"""That a second input gets a result of its own, and not what was kept of the first: it is timed with one alone."""

from collections.abc import Callable

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
    """Hold the output for other tokens, in the place of the first ones, against what is `expected` of them.

    `expected` takes the inputs in float64; `real` (b, n, 1) says which outputs are no padding. Raises WrongResult where
    one is off by more than `limit` of the norm. The first input is there again afterwards.
    """
    before = [tensor.detach().clone() for tensor in work.inputs]
    _fill(work, [-first.roll((1, 1), dims=(1, 2)) for first in before])
    torch.manual_seed(seed)
    got = work.forward().detach()
    torch.manual_seed(seed)
    with torch.set_grad_enabled(work.gradient is not None):  # as with the first, or what compiles would compile again
        wanted = expected([tensor.detach().double() for tensor in work.inputs]).detach()
    _fill(work, before)
    if real is not None:
        wanted, got = (torch.where(real, one, 0) for one in (wanted, got))
    try:
        check("its output", got, wanted, limit)
    except WrongResult as error:
        raise WrongResult(f"with a second input {error}: does it keep anything of the first?") from None


def _fill(work: Workload, values: list[Tensor]) -> None:
    with torch.no_grad():
        for tensor, value in zip(work.inputs, values, strict=True):
            tensor.copy_(value)
