"""What attention with one head means: the reference of all attention, told of one head whatever it is asked for."""

from impls.attention.reference import AttentionReference


class SingleHeadReference(AttentionReference):
    """(b, n, d) -> (b, n, d). `num_heads` is accepted and not used."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model, num_heads=1)
