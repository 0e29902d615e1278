"""Stack of encoder blocks, as in a model.

    y = Layer_6(… Layer_1(x + PE))

Vaswani et al. 2017, section 3.1, which uses six; Tay et al. 2021, "Long Range Arena", which measures the efficiency of
such a stack. Compared with one block, a stack shows how costs add up. Work, time, and what training keeps for the
backward pass are six times those of one block. In a forward pass, a block reuses the memory of the block before it.
"""

from typing import Any, ClassVar

from torch import Tensor, nn

from impls.blocks.blocks import DEFAULT, Encoder, Prepared


class EncoderStack(nn.Module):
    """(b, n, d) -> (b, n, d): `layers` encoder blocks, each with its own weights. The first block adds positions."""

    axes: ClassVar[dict[str, tuple[str, int]]] = {"layers": ("L", 6)}
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
        """Return the prepared arguments of the first block and of all others. Only the first block adds positions."""
        first = self.layers[0]
        assert isinstance(first, Encoder)
        of_first = first.prepare(x, attn_mask, is_causal)["prepared"]
        return {"prepared": (of_first, of_first._replace(positions=None))}

    supports = staticmethod(Encoder.supports)
