"""Layers with an attention of their own, each what its name says."""

import torch
from torch import Tensor, nn


class Uniform(nn.Module):
    """Every token looks at all that it may, equally."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__()
        self.num_heads = num_heads

    def forward(self, x: Tensor) -> Tensor:
        return x * 1.0

    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        may = x.new_ones(1, self.num_heads, x.shape[1], x.shape[1])
        if attn_mask is not None:
            may = may * attn_mask
        return may / may.sum(-1, keepdim=True)


class DoesNotSum(Uniform):
    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        return 0.9 * super().attention_weights(x, attn_mask)


class LooksAhead(Uniform):
    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        return super().attention_weights(x)


class ForgetsTheHeads(Uniform):
    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        return super().attention_weights(x, attn_mask)[:, 0]


class ReturnsAList(Uniform):
    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> list:
        return super().attention_weights(x, attn_mask).tolist()


class OnlyEven(Uniform):
    @staticmethod
    def supports(case) -> str | None:
        return "an odd number of tokens" if case.seq_len % 2 else None


class Tells(Uniform):
    """The first head's weights tell which tokens are alike."""

    def attention_weights(self, x: Tensor, attn_mask: Tensor | None = None) -> Tensor:
        # Without their positions: sin² + cos² of each pair are 1, whatever the place.
        from impls.blocks.blocks import sinusoids

        words = x[0] - sinusoids(x.shape[1], x)
        return ((torch.cdist(words, words) < 1e-3) * 1.0).softmax(-1)[None, None]


class Fades(nn.Module):
    """h_t = r h_{t−1} + x_t, by the sum that it is: what each step keeps is r, exactly."""

    causal = True
    keeps = 0.8

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        t = torch.arange(x.shape[1])
        back = (t[:, None] - t).clamp(min=0).to(x)
        return torch.einsum("ts,bsd->btd", (self.keeps**back).tril(), x)


class FadesAway(Fades):
    """A step keeps so little that squares of it are 0 long before it is."""

    keeps = 1e-20


class Mixes(nn.Module):
    """Tokens and features all mixed, nonlinearly, with dropout."""

    causal = True

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.linear = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(torch.sin(self.linear(x.cumsum(1))), 0.5, self.training)


class Explodes(Fades):
    keeps = 1e300


class TakesNoMask(nn.Module):
    """Neither causal nor to be told so: the last token looks at all the same."""

    def __init__(self, d_model: int) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1, keepdim=True).expand_as(x)


class BringsItsWeights(Uniform):
    """As one that loads what it has learned."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model, num_heads)
        learned = torch.randn(d_model, d_model, generator=torch.Generator().manual_seed(5)) / d_model**0.5
        self.learned = nn.Parameter(learned)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.learned.to(x.dtype)


class AveragesFour(Uniform):
    """The average of the last four tokens, by a mask of float32."""

    causal = True

    def forward(self, x: Tensor) -> Tensor:
        n, q = x.shape[1], torch.zeros_like(x)[:, None]
        hidden = torch.ones(n, n, dtype=torch.bool).tril().triu(-3).logical_not()
        mask = torch.zeros(n, n).masked_fill(hidden, -torch.inf)
        return nn.functional.scaled_dot_product_attention(q, q, x[:, None], attn_mask=mask)[:, 0]
