"""The probe: a reference workload, timed just before and just after the samples.

Shared machines have two speeds. For seconds at a time, a neighbour takes part of the cores or the cache, and everything
runs a third slower. A layer's samples cannot distinguish a disturbed machine from a slow layer. A fixed workload can.
"""

from time import perf_counter

import torch

# 192³ multiply-adds: a tenth of a millisecond on one core, large enough to wake all threads.
_SIZE = 192
_REPEATS = 8


def pulse() -> float:
    """The shortest of several times of the probe, in seconds, with torch's present number of threads."""
    # The result goes to existing memory: the cost of new memory depends on the allocator, not on the machine.
    x, y = torch.ones(_SIZE, _SIZE), torch.empty(_SIZE, _SIZE)
    best = float("inf")
    with torch.no_grad():
        for _ in range(_REPEATS):
            start = perf_counter()
            torch.mm(x, x, out=y)
            best = min(best, perf_counter() - start)
    return best
