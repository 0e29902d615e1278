"""Positional encoding: the position of a token as a vector. Without it, attention sees a set of tokens, not a sequence.

    PE(pos, 2i) = sin(pos / 10000^(2i/d)),   PE(pos, 2i + 1) = cos(pos / 10000^(2i/d))

Vaswani et al. 2017, section 3.5. Each pair of dimensions is a rotation with its own speed, from one radian per token
down to one in 10000 tokens. PE(pos + k) is PE(pos) rotated by an angle that depends on k only.
"""

import torch
from torch import Tensor


def sinusoids(n: int, like: Tensor) -> Tensor:
    """Return the encodings of the first n positions (n, d), with the width, dtype and device of `like` (…, d).

    The table has no weights. It is computed in float64 for every dtype, because half precision would distort the
    angles.
    """
    d = like.shape[-1]
    position = torch.arange(n, dtype=torch.float64, device=like.device)[:, None]  # (n, 1)
    even = torch.arange(0, d, 2, dtype=torch.float64, device=like.device)  # (⌈d/2⌉,): the 2i above
    angle = position / 10000 ** (even / d)  # (n, ⌈d/2⌉)
    pairs = torch.stack((angle.sin(), angle.cos()), dim=-1)  # (n, ⌈d/2⌉, 2)
    return pairs.flatten(1)[:, :d].to(like.dtype)  # (n, d)
