"""Correct for testing many cases at once, so that few of the reported changes are due to chance."""

from collections.abc import Sequence


def discoveries(p_values: Sequence[float], alpha: float) -> list[bool]:
    """Which p-values are discoveries, by Benjamini and Hochberg 1995, "Controlling the false discovery rate".

    The expected share of false discoveries is at most `alpha`. If no case has changed, the probability of any discovery
    is at most `alpha`.
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
