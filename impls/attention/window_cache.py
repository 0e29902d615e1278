"""The keys and values of the last few tokens: what decoding with a window rests on, however long the sequence."""

from typing import NamedTuple

import torch
from torch import Tensor


class RingCache(NamedTuple):
    """`keys` and `values` (b, h, room, head_dim); token t is at t mod room, over the one `room` tokens before it.

    `empty` (room,) is True where there has been none yet, `length` how many there have been in all.
    """

    keys: Tensor
    values: Tensor
    empty: Tensor
    length: int

    def append(self, k: Tensor, v: Tensor) -> "RingCache":
        """With t more tokens, (b, h, t, head_dim) each and no more than there is room, in the same memory."""
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
        """As many tokens later, of which nothing is kept."""
        return self._replace(length=self.length + tokens)
