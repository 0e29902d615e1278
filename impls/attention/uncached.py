"""Decoding that remembers the text and nothing of it: every token more is a whole pass over all tokens so far.

    y_t = Attention(x_1 … x_t)_t

The baseline of Katharopoulos et al. 2020, "Transformers are RNNs", sections 4.2 and 4.3, where softmax attention
generates so. A forward pass is that of `fused`. What this rung shows is what `fused` saves by its cache of keys and
values: a token costs 8nd² + 4n²d here and 8d² + 4nd there.
"""

from typing import NamedTuple

from torch import Tensor

from impls.attention.fused import FusedAttention


class Text(NamedTuple):
    """`tokens` (b, n, d), in memory that is taken once, of which the first `length` are there."""

    tokens: Tensor
    length: int

    def append(self, x: Tensor) -> "Text":
        """With t more tokens (b, t, d), in the same memory; the text before keeps its own length."""
        end = self.length + x.shape[1]
        self.tokens[:, self.length : end] = x
        return self._replace(length=end)

    def present(self) -> Tensor:
        """The tokens that are there: (b, length, d), a view."""
        return self.tokens[:, : self.length]


class UncachedAttention(FusedAttention):
    """(b, n, d) -> (b, n, d). It decodes over its own text alone: there is nothing of a source to compute again."""

    def start(self, batch_size: int, seq_len: int) -> Text:  # type: ignore[override]
        """No token, with room for `seq_len` of them."""
        return Text(self.in_proj_weight.new_zeros(batch_size, seq_len, self.in_proj_weight.shape[1]), 0)

    def step(self, x_t: Tensor, text: Text) -> tuple[Tensor, Text]:  # type: ignore[override]
        """One token more, (b, d) -> (b, d): outputs of all tokens are computed, and the last is returned."""
        text = text.append(x_t[:, None])
        return self.forward(text.present(), is_causal=True)[:, -1], text

    def prefill(self, x: Tensor, text: Text) -> Text:  # type: ignore[override]
        """Put t tokens (b, t, d) behind those that are there; nothing is computed."""
        return text.append(x)
