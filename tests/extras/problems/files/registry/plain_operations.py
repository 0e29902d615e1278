"""Operations in plain torch, as a package of kernels would have them. Inputs are (batch, tokens, heads, width)."""

from torch import Tensor, zeros_like


def naive_decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, scale: float) -> tuple[Tensor, None]:
    """Linear attention with a logarithmic decay g and a weight beta for each token, token by token."""
    state = zeros_like(q[:, 0, :, :, None] * v[:, 0, :, None])
    outputs = zeros_like(v)
    for t in range(q.shape[1]):
        state = state * g[:, t, :, None, None].exp() + (beta[:, t, :, None] * k[:, t])[..., None] * v[:, t, :, None]
        outputs[:, t] = ((scale * q[:, t])[..., None] * state).sum(-2)
    return outputs, None


def parallel_decay(beta: Tensor, g: Tensor, q: Tensor, k: Tensor, v: Tensor, scale: float) -> tuple[Tensor, None]:
    """The same by two products of matrices."""
    decay = g.cumsum(1).transpose(1, 2)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    weights = (decay[..., None] - decay[..., None, :]).exp().tril() * beta.transpose(1, 2)[..., None, :]
    return ((scale * q @ k.mT) * weights @ v).transpose(1, 2), None


def mean_of_sources(query: Tensor, sources: list[Tensor], number: int) -> Tensor:
    """The mean of several sources, each times the query."""
    assert number == len(sources)
    return query * sum(sources) / number


def squared(q: Tensor) -> Tensor:
    """The products of each token's heads."""
    return q @ q.mT
