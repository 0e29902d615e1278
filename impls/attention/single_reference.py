"""Reference for attention with one head: the general attention reference, always built with one head."""

from impls.attention.reference import AttentionReference


class SingleHeadReference(AttentionReference):
    """(b, n, d) -> (b, n, d). `num_heads` is accepted but unused."""

    def __init__(self, d_model: int, num_heads: int = 1) -> None:
        super().__init__(d_model, num_heads=1)
