"""Arguments of a layer besides its input: masks and a source, made outside the measured time."""

import math
from typing import Any

import torch
from torch import Tensor, nn

from harness.case import Case
from harness.trial.contract import is_causal, source_len, takes


def real_lengths(case: Case, length: int) -> list[int]:
    """Return how many of `length` tokens are real, for each sequence of a padded batch.

    The lengths are spread evenly and average `real_share`, because sequences of equal length would need no padding. A
    single sequence has that share.
    """
    b, share = case.batch_size, case.real_share
    half = min(share, 1 - share) if b > 1 else 0.0
    shares = [share + half * (2 * i / max(b - 1, 1) - 1) for i in range(b)]
    return [min(length, max(1, math.floor(length * each + 0.5))) for each in shares]


def real_tokens(case: Case, length: int) -> Tensor:
    """Return (b, length), True for real tokens. These come first, and padding follows them."""
    return torch.arange(length) < torch.tensor(real_lengths(case, length))[:, None]


def given(layer: nn.Module, case: Case, source: Tensor | None) -> dict[str, Any]:
    """Return keyword arguments of `forward` for the case's mask and source, on its device, as the layer can take them.

    Padding applies to what is attended to: the source if one is given, else the input. A layer that is causal by nature
    gets no mask over its own input, because no real token follows the padding.
    """
    of_it: dict[str, Any] = {"source": source} if source is not None else {}
    keys = case.seq_len if source is None else source.shape[1]
    if is_causal(layer) and (case.mask != "padding" or source is None):
        return of_it
    if case.mask == "causal" and source is not None:  # decoding: every token sees the whole source
        return of_it
    if case.mask == "causal" and takes(layer, "is_causal"):
        of_it["is_causal"] = True
    elif case.mask == "causal":
        of_it["attn_mask"] = torch.ones(keys, keys, dtype=torch.bool).tril()[None, None].to(case.device)
    elif case.mask == "padding":
        of_it["attn_mask"] = real_tokens(case, keys)[:, None, None].to(case.device)
    return of_it


def counted(layer: nn.Module, case: Case) -> Tensor | None:
    """Return (b, n, 1), True where an output belongs to a real token and not to padding, or None if all are real."""
    if case.mask != "padding" or source_len(layer, case):
        return None
    return real_tokens(case, case.seq_len)[..., None].to(case.device)
