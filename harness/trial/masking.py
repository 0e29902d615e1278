"""That a mask hides what it must, whatever the reference says: what is hidden may change, and nothing seen does."""

from collections.abc import Callable

import torch
from torch import Tensor

from harness.case import Case
from harness.trial.build import Workload
from harness.trial.given import real_tokens
from harness.trial.relative import WrongResult, check
from harness.trial.second_input import fill


def check_mask(case: Case, work: Workload, seed: int, limit: float) -> None:
    """Change what the mask hides from a part of the outputs, and hold these against what they were before.

    A causal mask hides the later half of the tokens from the earlier; padding is hidden from all that is real. Raises
    WrongResult where an output changes by more than `limit` of its norm. Without a mask there is nothing to check.
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
    """Add to `hidden` (a view of the input), all of it or only `where`; the `seen` part of the output stays.

    Outputs are copied, and the input restored after each call: an output may share the memory of the input, and a layer
    may change its input.
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
