"""Where a token stands, as a vector: without it attention sees a set of tokens and no sequence.

    PE(pos, 2i) = sin(pos / 10000^(2i/d)),   PE(pos, 2i + 1) = cos(pos / 10000^(2i/d))

Vaswani et al. 2017, section 3.5. Each pair of dimensions is a hand turning at its own speed, from one radian a token
down to one in 10000: PE(pos + k) is PE(pos) turned by an angle that depends on k alone.
"""

import torch
from torch import Tensor


def sinusoids(n: int, like: Tensor) -> Tensor:
    """The table of the first n positions, (n, d), of the width, dtype and device of `like` (…, d).

    It has no weights, and is computed in float64 whatever the dtype: at half precision the angle itself would be off.
    """
    d = like.shape[-1]
    position = torch.arange(n, dtype=torch.float64, device=like.device)[:, None]  # (n, 1)
    even = torch.arange(0, d, 2, dtype=torch.float64, device=like.device)  # (⌈d/2⌉,): the 2i above
    angle = position / 10000 ** (even / d)  # (n, ⌈d/2⌉)
    pairs = torch.stack((angle.sin(), angle.cos()), dim=-1)  # (n, ⌈d/2⌉, 2)
    return pairs.flatten(1)[:, :d].to(like.dtype)  # (n, d)
