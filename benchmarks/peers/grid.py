"""What every method measures, and for how long: the same twelve cases, on all cores."""

import os

from harness.core.model.sweep_axes import Case

REPEATS = int(os.environ.get("HARNESS_BENCH_REPEATS", "8"))
TRIAL_S = float(os.environ.get("HARNESS_BENCH_TRIAL_S", "0.03"))
ROUNDS = int(os.environ.get("HARNESS_BENCH_ROUNDS", "9"))
THREADS = os.cpu_count() or 1


def _case(impl: str, n: int) -> Case:
    return Case(impl, n, 256, 4 if impl.startswith("attention") else 1, threads=THREADS)


CASES = [
    _case(impl, n)
    for impl in ("rnn.torch", "attention.naive", "attention.packed", "attention.fused")
    for n in (128, 512, 1024)
]
# For a method too slow for all of them: a short call, a middling one, and the one that page faults make uneven.
FEW_CASES = [_case("rnn.torch", 128), _case("attention.fused", 512), _case("attention.naive", 1024)]
