"""Layers of the encoder one after another, as in a model.

    y = Layer_6(… Layer_1(x + PE))

Vaswani et al. 2017, section 3.1, where there are six; Tay et al. 2021, "Long Range Arena", whose efficiency is that of
such a stack. What this adds to `encoder.py` is how costs add up: work, time, and what training keeps for the backward
pass are six times those of a layer, while in a forward pass a layer's memory serves the next.
"""

from typing import Any

from torch import Tensor, nn

from impls.blocks.encoder import Encoder, Prepared
from impls.blocks.rung import DEFAULT


class EncoderStack(nn.Module):
    """(b, n, d) -> (b, n, d), `layers` times `Encoder`, each with weights of its own; the first adds positions."""

    kinks = True  # ReLU

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        attention: str = DEFAULT,
        attention_options: dict[str, Any] | None = None,
        layers: int = 6,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            Encoder(d_model, num_heads, attention, attention_options, adds_positions=not i) for i in range(layers)
        )

    def forward(
        self,
        x: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        prepared: tuple[Prepared, Prepared] | None = None,
    ) -> Tensor:
        if prepared is None:
            prepared = self.prepare(x, attn_mask, is_causal)["prepared"]
        of_first, of_others = prepared
        for i, layer in enumerate(self.layers):
            x = layer(x, prepared=of_others if i else of_first)  # (b, n, d)
        return x

    def prepare(
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> dict[str, tuple[Prepared, Prepared]]:
        """What the first layer is told, and what all others are: one mask for all, and no positions."""
        first = self.layers[0]
        assert isinstance(first, Encoder)
        of_first = first.prepare(x, attn_mask, is_causal)["prepared"]
        return {"prepared": (of_first, of_first._replace(positions=None))}

    supports = staticmethod(Encoder.supports)
