"""Split features into heads and concatenate them again, as views if the memory layout allows."""

from torch import Tensor


def head_dim_of(d_model: int, num_heads: int) -> int:
    """Return d/h, the width of a head. Raises ValueError if `num_heads` does not divide `d_model`."""
    if d_model % num_heads:
        raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
    return d_model // num_heads


def split(side_by_side: Tensor, count: int, num_heads: int) -> tuple[Tensor, ...]:
    """Split `count` matrices that lie side by side into heads: (b, n, count · d) -> (b, h, n, head_dim) for each."""
    b, n, width = side_by_side.shape
    heads = side_by_side.view(b, n, count, num_heads, width // (count * num_heads))
    return heads.permute(2, 0, 3, 1, 4).unbind(0)  # (b, h, n, head_dim) each


def concatenated(heads: Tensor) -> Tensor:
    """Return Concat(head_1 … head_h): (b, h, n, head_dim) -> (b, n, d)."""
    return heads.transpose(1, 2).flatten(2)
