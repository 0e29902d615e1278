"""Verify masks without a reference: changing hidden tokens must not change any visible output."""

from collections.abc import Callable

import torch
from torch import Tensor

from harness.case import Case
from harness.trial.build import Workload
from harness.trial.given import real_tokens
from harness.trial.relative import WrongResult, check
from harness.trial.second_input import fill


def check_mask(case: Case, work: Workload, seed: int, limit: float) -> None:
    """Change the tokens that the mask hides from some outputs, and compare these outputs with those before the change.

    A causal mask hides the later half of the tokens from the earlier half. Padding is hidden from all real tokens.
    Raises WrongResult if an output changes by more than `limit` of its norm. Without a mask, nothing is checked.
    """
    if case.mask == "causal" and case.seq_len > 1 and not case.source_len:
        seen = case.seq_len // 2
        _unchanged(work, work.x[:, seen:], lambda y: y[:, :seen], seed, limit, "later tokens")
    elif case.mask == "padding":
        padded = work.x if work.source is None else work.source
        real = real_tokens(case, padded.shape[1]).to(padded.device)
        of_input = padded is work.x

        def counted(y: Tensor) -> Tensor:
            return torch.where(real[..., None], y, 0) if of_input else y

        _unchanged(work, padded, counted, seed, limit, "padding", where=~real[..., None])


def _unchanged(
    work: Workload,
    hidden: Tensor,
    seen: Callable[[Tensor], Tensor],
    seed: int,
    limit: float,
    what: str,
    where: Tensor | None = None,
) -> None:
    """Change `hidden`, a view of the input, and check that the `seen` outputs stay the same.

    1 is added to all of `hidden`, or only to the tokens in `where`.

    Outputs are copied, because they may share memory with the input. The input is restored after each call, because a
    layer may change it.
    """
    kept = [tensor.detach().clone() for tensor in work.inputs]
    torch.manual_seed(seed)
    before = seen(work.forward()).detach().to(torch.float64, copy=True)
    fill(work.inputs, kept)
    with torch.no_grad():
        hidden += 1.0 if where is None else where.to(hidden)
    torch.manual_seed(seed)
    after = seen(work.forward()).detach().clone()
    fill(work.inputs, kept)
    try:
        check("its output", after, before, limit)
    except WrongResult as error:
        raise WrongResult(f"it sees {what} that the mask hides: {error}") from None
