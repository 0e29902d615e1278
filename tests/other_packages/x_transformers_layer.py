"""A layer of x-transformers, in ten lines or fewer. Nothing of the harness is imported."""

from layers import softmax
from torch import nn
from x_transformers import Attention


class XTransformers(nn.Module):
    family, reference = "attention", "x_transformers_layer:Formula"
    claims = {"work": "8nd² + 4n²d", "work_train": "24nd² + 12n²d", "depth": "1"}

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.inner = Attention(d_model, heads=num_heads, dim_head=d_model // num_heads)

    def forward(self, x):
        return self.inner(x)


class Formula(XTransformers):
    """Softmax attention with the same weights."""

    def forward(self, x):
        inner = self.inner
        return inner.to_out(softmax(inner.to_q(x), inner.to_k(x), inner.to_v(x), inner.heads))
