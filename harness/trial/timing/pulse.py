"""The machine's pulse: a fixed piece of work, timed just before and just after the samples.

Shared machines have two speeds: for seconds at a time a neighbour takes part of the cores or the cache, and
everything runs a third slower. A layer's samples cannot tell that from a slow layer; a piece of work that
is always the same can.
"""

from time import perf_counter

import torch

# 192³ multiply-adds: a tenth of a millisecond on one core, large enough to wake all threads.
_SIZE = 192
_REPEATS = 8


def pulse() -> float:
    """Seconds that the fixed work takes now, at best, with torch's present number of threads."""
    # Its result goes to memory that is there already: what new memory costs is the allocator's, not the machine's.
    x, y = torch.ones(_SIZE, _SIZE), torch.empty(_SIZE, _SIZE)
    best = float("inf")
    with torch.no_grad():
        for _ in range(_REPEATS):
            start = perf_counter()
            torch.mm(x, x, out=y)
            best = min(best, perf_counter() - start)
    return best
