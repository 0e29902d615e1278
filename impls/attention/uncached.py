"""Decoding without a cache: every new token repeats the whole forward pass over all tokens so far.

    y_t = Attention(x_1 … x_t)_t

The baseline of Katharopoulos et al. 2020, "Transformers are RNNs", sections 4.2 and 4.3, in which softmax attention
generates this way. The forward pass is that of `fused`. Comparing both shows what the KV cache of `fused` saves: a
token costs 8nd² + 4n²d here and 8d² + 4nd there.
"""

from typing import NamedTuple

from torch import Tensor

from impls.attention.fused import FusedAttention


class Text(NamedTuple):
    """`tokens` (b, n, d) in preallocated memory, with the first `length` filled."""

    tokens: Tensor
    length: int

    def append(self, x: Tensor) -> "Text":
        """Return a text with t more tokens (b, t, d) in the same memory. The old text keeps its own `length`."""
        end = self.length + x.shape[1]
        self.tokens[:, self.length : end] = x
        return self._replace(length=end)

    def present(self) -> Tensor:
        """Return the filled tokens as a view: (b, length, d)."""
        return self.tokens[:, : self.length]


class UncachedAttention(FusedAttention):
    """(b, n, d) -> (b, n, d). It decodes over its own text only: with a source, nothing would be recomputed."""

    def start(self, batch_size: int, seq_len: int) -> Text:  # type: ignore[override]
        """Return an empty text with room for `seq_len` tokens."""
        return Text(self.in_proj_weight.new_zeros(batch_size, seq_len, self.in_proj_weight.shape[1]), 0)

    def step(self, x_t: Tensor, text: Text) -> tuple[Tensor, Text]:  # type: ignore[override]
        """Process one more token: (b, d) -> (b, d).

        The outputs of all tokens are computed, and the last one is returned.
        """
        text = text.append(x_t[:, None])
        return self.forward(text.present(), is_causal=True)[:, -1], text

    def prefill(self, x: Tensor, text: Text) -> Text:  # type: ignore[override]
        """Append t tokens (b, t, d) to the text. Nothing is computed."""
        return text.append(x)
