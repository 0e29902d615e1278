"""What the gate's proof measures: twelve real cases, and the same layers doing a known share more of their work."""

import os
from itertools import cycle

from harness.case import Case
from harness.sweep.paired.comparison import Pair

THREADS = int(os.environ.get("HARNESS_BENCH_THREADS", "1"))
IMPLS = ("rnn.torch", "attention.naive", "attention.packed", "attention.fused")
SIZES = ((64, 256), (128, 128), (256, 64))  # n, d
# Each layer is called so often that one call more is that share more work.
CALLS = {0.02: 50, 0.03: 33, 0.05: 20, 0.10: 20, 0.20: 20}
SMALL = ((32, 64), (64, 32), (64, 64))


def _case(impl: str, n: int, d: int, heads: bool = True) -> Case:
    return Case(impl, n, d, 4 if heads else 1, threads=THREADS, allocator="steady")


def alike() -> list[Pair]:
    """Twelve cases, each beside itself."""
    cases = [_case(impl, n, d, impl.startswith("attention")) for impl in IMPLS for n, d in SIZES]
    return [Pair(case, case) for case in cases]


def planted(shares: tuple[float, ...], turn: int) -> tuple[list[Pair], list[float]]:
    """Twelve pairs whose heads do so much more work than their bases, and how much: the shares in turns, from another

    one on in every `turn`, so that each layer gets each share.
    """
    rotated = shares[turn % len(shares) :] + shares[: turn % len(shares)]
    pairs, effects = [], []
    for (impl, (n, d)), share in zip(((impl, size) for impl in IMPLS for size in SMALL), cycle(rotated), strict=False):
        calls = CALLS[share] if share else 20
        more = calls + round(calls * share)
        base, head = (_case(f"bench.gate.repeated:{_name(impl)}{times}", n, d) for times in (calls, more))
        pairs.append(Pair(base, head))
        effects.append(more / calls - 1)
    return pairs, effects


def _name(impl: str) -> str:
    return impl.replace(".", "_").title().replace("_", "")
