"""Many cases at once: which of them to call changed, so that few of those are called so by chance."""

from collections.abc import Sequence


def discoveries(p_values: Sequence[float], alpha: float) -> list[bool]:
    """Benjamini and Hochberg 1995, "Controlling the false discovery rate": of those called, a share of at most `alpha`
    is expected to be false; where none has changed, that one is called at all has a chance of at most `alpha`.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    called = 0
    for rank, index in enumerate(order, start=1):
        if p_values[index] <= alpha * rank / len(p_values):
            called = rank
    found = [False] * len(p_values)
    for index in order[:called]:
        found[index] = True
    return found
