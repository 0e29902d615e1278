"""How far reported GPU times are from the true ones, on simulated GPUs; no clock.

    python -m pytest -s tests/bench/bench_simulated_gpu.py

Each line is of GPUs that differ by the seed of their jitter. They cost what a GPU of today does, or what the record of
a real one says (`trial/timing/cuda/recorded`). To be reached: errors below 1 %, and an
exponent of 1.00 ± 0.02. `bench_gate.py` with HARNESS_SIMULATED_CUDA has the gate's figures; the coverage of intervals
is in `tests/trial/timing/cuda/test_coverage.py`.
"""

import os
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table
from trial.timing.cuda.simulated_gpu import SimClock, SimGpu
from trial.timing.cuda.test_sample import GPUS, sampled, sampled_beside_the_truth

from harness.stats.estimate import median_between_ticks

SEEDS = int(os.environ.get("HARNESS_BENCH_SEEDS", "20"))
BUDGET_S = 0.05
LARGEST_ERROR = 0.01
BOOST_HZ = 1.98e9
KERNELS_S = (5e-6, 20e-6, 100e-6, 1e-3, 10e-3, 100e-3)
CHAINS = (1, 100, 900, 1100, 3000, 10_000)
SIZES = (64, 128, 256, 320, 332, 512, 1024, 2048)
CLOCKS: dict[str, Callable[[], SimClock]] = {
    "steady": lambda: SimClock(BOOST_HZ),
    "falls by 25 % under load": lambda: SimClock(BOOST_HZ, 0.75 * BOOST_HZ, 30e-3),
    "falls by 25 % at once": lambda: SimClock(BOOST_HZ, falls_at_s=0.12),
}
CONSOLE = Console(width=120)
pytestmark = pytest.mark.parametrize("name", GPUS)


def _gpu(name: str, seed: int, clock: SimClock | None = None) -> SimGpu:
    gpu = SimGpu(**GPUS[name], seed=seed, clock=clock or SimClock(BOOST_HZ))
    gpu.gauge.is_open = False
    return gpu


def _timed(gpu: SimGpu, call: Any) -> tuple[float, dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        samples, extras = sampled(gpu, call, patch, BUDGET_S)
    return median_between_ticks(samples.samples_s), extras


def _told(title: str, headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = Table(title=title, title_justify="left")
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*row)
    CONSOLE.print(table)


def _errors(errors: list[float]) -> tuple[str, str]:
    return f"{median(errors):.3%}", f"{max(errors):.3%}"


def test_single_kernels(name: str) -> None:
    """One kernel per call. The true time is what the simulation's books give for the kept samples."""
    rows, beyond = [], []
    for falls, clock in CLOCKS.items():
        for kernel_s in KERNELS_S:
            errors = []
            for seed in range(SEEDS):
                gpu = _gpu(name, seed, clock())
                with pytest.MonkeyPatch.context() as patch:
                    samples, _, true_s = sampled_beside_the_truth(gpu, gpu.layer(1, kernel_s), patch, BUDGET_S)
                errors.append(abs(median_between_ticks(samples.samples_s) / true_s - 1))
            beyond.append(max(errors) - LARGEST_ERROR)
            rows.append((falls, f"{1e6 * kernel_s:g} µs", *_errors(errors)))
    _told(f"A jittery host, {name} GPU", ("clock rate", "kernel", "error, median", "largest"), rows)
    assert max(beyond) < 0


def test_chains_of_launches(name: str) -> None:
    """Kernels of 6 µs, fewer and more than fit into the queue of 1,000 entries."""
    rows, beyond = [], []
    for launches in CHAINS:
        errors, ways = [], set()
        for seed in range(SEEDS):
            gpu = _gpu(name, seed)
            call = gpu.layer(launches, 6e-6)
            time_s, extras = _timed(gpu, call)
            errors.append(abs(time_s / call.cold_s - 1))
            ways.add(str(extras["gpu_time_by"]))
        beyond.append(max(errors) - LARGEST_ERROR)
        rows.append((f"{launches:,}", ", ".join(sorted(ways)), *_errors(errors)))
    _told(f"Chains of launches, {name} GPU", ("launches", "timed", "error, median", "largest"), rows)
    assert max(beyond) < 0


def test_a_loop_over_n(name: str) -> None:
    """Three kernels for each of n steps."""
    exponents, jumps = [], []
    for seed in range(SEEDS):
        times = []
        for n in SIZES:
            gpu = _gpu(name, seed)
            times.append(_timed(gpu, gpu.layer(3 * n, 2.3e-6))[0])
        exponents.append(float(np.polyfit(np.log(SIZES), np.log(times), 1)[0]))
        per_step = np.array(times) / SIZES
        jumps.append(float(per_step.max() / per_step.min() - 1))
    row = (f"{min(exponents):.4f} to {max(exponents):.4f}", f"{max(jumps):.2%}")
    _told(f"A loop over n = 64 to 2048, {name} GPU", ("exponent", "largest difference of the time per step"), [row])
    assert max(abs(exponent - 1) for exponent in exponents) <= 0.02
