"""The keys and values of all tokens so far, in memory that is taken once: what decoding step by step rests on.

Shazeer 2019, "Fast Transformer Decoding: One Write-Head is All You Need", section 2.2 (incremental attention).
"""

from typing import NamedTuple

from torch import Tensor


class KVCache(NamedTuple):
    """`keys` and `values` (b, h, n, head_dim), of which the first `length` tokens are there.

    `is_source`: they are of a source (cross-attention), are all there, and none is added.
    """

    keys: Tensor
    values: Tensor
    length: int
    is_source: bool = False

    def append(self, k: Tensor, v: Tensor) -> "KVCache":
        """With t more tokens, (b, h, t, head_dim) each, in the same memory; the cache before keeps its own length.

        So one cache may be continued twice: the later continuation overwrites what the earlier wrote.
        """
        end = self.length + k.shape[2]
        self.keys[:, :, self.length : end] = k
        self.values[:, :, self.length : end] = v
        return self._replace(length=end)

    def present(self) -> tuple[Tensor, Tensor]:
        """Keys and values of the tokens that are there: (b, h, length, head_dim) each, views."""
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]
