"""Costs made up from a formula, with noise or without."""

from collections.abc import Callable, Sequence

import numpy as np

from harness.study.laws.fit_law import HIDDEN_PART
from harness.study.laws.laws import Floats, Law, Sizes

DOUBLING = (64, 128, 256, 512, 1024, 2048)
UNDETERMINED = "undetermined"


def grid(
    n: Sequence[int] = DOUBLING, d: Sequence[int] = (256,), h: Sequence[int] = (8,), b: Sequence[int] = (1,)
) -> Sizes:
    """Every combination."""
    return Sizes.of([(x, y, z, w) for x in n for y in d for z in h for w in b])


def noisy(costs: Floats, noise: float, seed: int) -> Floats:
    """The costs, each off by a relative error of standard deviation `noise`."""
    return costs * np.exp(np.random.default_rng(seed).normal(0, noise, len(costs)))


def attention(sizes: Sizes, rate: float = 1e13) -> Floats:
    """20 µs and 8nd² + 4n²d FLOPs at `rate` a second."""
    return 20e-6 + (8 * sizes.n * sizes.d**2 + 4 * sizes.n**2 * sizes.d) / rate


Formula = Callable[[Sizes], Floats]


def law_name(law: Law) -> str:
    """The terms on which all plausible laws agree.

    This is `O(n + n²)` if all terms are known, `O(n² + …)` if only the leading one is, else `undetermined`.
    """
    if not law.determined:
        return UNDETERMINED
    if law.rivals or any(hidden.part > HIDDEN_PART for hidden in law.hidden):
        return f"O({max(law.terms)} + …)"
    return f"O({' + '.join(str(term) for term in law.terms) or '0'})"
