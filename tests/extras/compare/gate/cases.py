"""What the gate's proof measures: twelve real cases, and the same layers doing a known share more of their work."""

import os
from itertools import cycle, product

from extras.compare.gate.planting import CALLS, IMPLS, class_name

from harness.core.model.sweep_axes import Case
from harness.extras.compare.interleaved import Pair

THREADS = int(os.environ.get("HARNESS_BENCH_THREADS", "1"))
DEVICE = os.environ.get("HARNESS_BENCH_DEVICE", "cpu")
# n, d. On a GPU a call must take 0.3 ms and more: shorter ones would tell of launches. A simulated one is slow.
SIMULATED = bool(os.environ.get("HARNESS_SIMULATED_CUDA"))
ON_GPU = DEVICE == "cuda" and not SIMULATED
SIZES = ((2048, 2048), (4096, 1024), (1024, 4096)) if ON_GPU else ((64, 256), (128, 128), (256, 64))
# Smaller, as each is called many times.
SMALL = ((1024, 1024), (2048, 512), (512, 1024)) if ON_GPU else ((16, 64), (32, 32), (16, 128))
if SIMULATED:  # the longer a call, the fewer of them in a turn: each takes long to simulate
    SIZES, SMALL = ((16, 32), (32, 16), (16, 16)), ((32, 64), (64, 32), (32, 32))
BATCH = 8 if ON_GPU else 1
# In float32, products of a GPU take ten times as long.
DTYPE = "bfloat16" if ON_GPU else "float32"
# How many of the twelve are measured.
CASES = int(os.environ.get("HARNESS_BENCH_CASES", "12"))


def _case(impl: str, n: int, d: int, heads: bool = True) -> Case:
    allocator = "steady" if DEVICE == "cpu" else "default"
    num_heads = 4 if heads else 1
    about = {"device": DEVICE, "dtype": DTYPE, "threads": THREADS, "allocator": allocator}
    return Case(impl, n, d, num_heads, batch_size=BATCH, **about)


def alike() -> list[Pair]:
    """Twelve cases, or the last `CASES` of them, each beside itself."""
    cases = [_case(impl, n, d, impl.startswith("attention")) for impl in IMPLS for n, d in SIZES]
    return [Pair(case, case) for case in cases[-CASES:]]


def planted(shares: tuple[float, ...], turn: int) -> tuple[list[Pair], list[float]]:
    """Twelve pairs, or the last `CASES` of them, whose heads do so much more work than their bases, and how much.

    The shares are taken in turns, from another one on in every `turn`, so that each layer gets each share.
    """
    rotated = shares[turn % len(shares) :] + shares[: turn % len(shares)]
    pairs, effects = [], []
    for (impl, (n, d)), share in zip([*product(IMPLS, SMALL)][-CASES:], cycle(rotated), strict=False):
        calls = CALLS[share] if share else 20
        more = calls + round(calls * share)
        base, head = (_case(f"extras.compare.gate.repeated:{class_name(impl, times)}", n, d) for times in (calls, more))
        pairs.append(Pair(base, head))
        effects.append(more / calls - 1)
    return pairs, effects
