"""What a layer is given beside its input: masks and a source, made outside the clock."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from harness.case import Case
from harness.trial.contract import is_causal, source_len, takes


def real_lengths(case: Case, length: int) -> list[int]:
    """How many of `length` tokens of each sequence of a padded batch are real: spread evenly, `real_share` on average.

    Sequences of one length would need no padding. A single one has its share.
    """
    b, share = case.batch_size, case.real_share
    half = min(share, 1 - share) if b > 1 else 0.0
    shares = [share + half * (2 * i / max(b - 1, 1) - 1) for i in range(b)]
    return [min(length, max(1, math.floor(length * each + 0.5))) for each in shares]


def real_tokens(case: Case, length: int) -> Tensor:
    """(b, length), True for real tokens: they come first, and padding after them."""
    return torch.arange(length) < torch.tensor(real_lengths(case, length))[:, None]


def given(layer: nn.Module, case: Case, source: Tensor | None) -> dict[str, Any]:
    """Keyword arguments of `forward` for the case's mask and source, on its device, as the layer can take them.

    Padding is of what is attended to: of the source if there is one. A layer that is causal by nature is told nothing
    of a mask over its own input: nothing real comes after padding.
    """
    of_it: dict[str, Any] = {"source": source} if source is not None else {}
    keys = case.seq_len if source is None else source.shape[1]
    if is_causal(layer) and (case.mask != "padding" or source is None):
        return of_it
    if case.mask == "causal" and source is not None:  # in decoding: every token sees all of the source
        return of_it
    if case.mask == "causal" and takes(layer, "is_causal"):
        of_it["is_causal"] = True
    elif case.mask == "causal":
        of_it["attn_mask"] = torch.ones(keys, keys, dtype=torch.bool).tril()[None, None].to(case.device)
    elif case.mask == "padding":
        of_it["attn_mask"] = real_tokens(case, keys)[:, None, None].to(case.device)
    return of_it


def counted(layer: nn.Module, case: Case) -> Tensor | None:
    """(b, n, 1), True where an output is of a real token and not of padding; None if all are."""
    if case.mask != "padding" or source_len(layer, case):
        return None
    return real_tokens(case, case.seq_len)[..., None].to(case.device)
