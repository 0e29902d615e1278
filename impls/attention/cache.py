"""KV cache: the keys and values of all tokens so far, in preallocated memory, for step-by-step decoding.

Shazeer 2019, "Fast Transformer Decoding: One Write-Head is All You Need", section 2.2 (incremental attention).
"""

from typing import NamedTuple

from torch import Tensor


class KVCache(NamedTuple):
    """`keys` and `values` (b, h, n, head_dim), with the first `length` tokens filled.

    `is_source`: keys and values belong to a source (cross-attention). All slots are then filled, and no token is added.
    """

    keys: Tensor
    values: Tensor
    length: int
    is_source: bool = False

    def append(self, k: Tensor, v: Tensor) -> "KVCache":
        """Return a cache with t more tokens, (b, h, t, head_dim) each, in the same memory.

        The old cache keeps its own `length`, so one cache can be continued twice. The later continuation then
        overwrites the tokens of the earlier one.
        """
        end = self.length + k.shape[2]
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        return self._replace(length=end)

    def present(self) -> tuple[Tensor, Tensor]:
        """Return keys and values of the filled slots as views: (b, h, length, head_dim) each."""
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]
