"""Ring cache for decoding with a window: the keys and values of the last few tokens, at any sequence length."""

from typing import NamedTuple

import torch
from torch import Tensor


class RingCache(NamedTuple):
    """`keys` and `values` (b, h, room, head_dim). Token t is stored in slot t mod room and overwrites token t − room.

    `empty` (room,) is True for slots that have never been filled. `length` is the number of tokens so far.
    """

    keys: Tensor
    values: Tensor
    empty: Tensor
    length: int

    def append(self, k: Tensor, v: Tensor) -> "RingCache":
        """Return a cache with t more tokens, (b, h, t, head_dim) each, in the same memory. t must be at most room."""
        length = self.length + k.shape[2]
        at = self.length % self.keys.shape[2]
        if k.shape[2] == 1:  # a step of decoding: a slice costs less than indices
            self.keys[:, :, at : at + 1], self.values[:, :, at : at + 1] = k, v
            self.empty[at : at + 1] = False
        else:
            slots = torch.arange(self.length, length, device=k.device) % self.keys.shape[2]
            self.keys[:, :, slots], self.values[:, :, slots] = k, v
            self.empty[slots] = False
        return self._replace(length=length)

    def skip(self, tokens: int) -> "RingCache":
        """Advance by `tokens` tokens without storing them."""
        return self._replace(length=self.length + tokens)
