"""How far reported GPU times are from the true ones, on simulated GPUs; no clock.

    python -m pytest -s benchmarks/bench_simulated_gpu.py

Each line is of GPUs that differ by the seed of their jitter. They cost what a GPU of today does, or what a record says:
the record of a simulated one, and those of real ones (`trial/timing/cuda/recorded`). To be reached: errors below 1 % or
a tenth of a tick of the events, and an exponent of 1.00 ± 0.02 without a jump above 1 %; peaks within 3 %; coverage of
93 to 97 %. `bench_gate.py` with HARNESS_SIMULATED_CUDA has the gate's figures.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from core.trial.timing.cuda.gpus import GPUS
from core.trial.timing.cuda.simulated_gpu import SimClock, SimGpu
from core.trial.timing.cuda.test_coverage import DRAWS, QUICK, STANDARD, share_held, simulate_trials
from core.trial.timing.cuda.test_sample import exponent_and_jump, sampled, sampled_beside_the_truth
from rich.console import Console
from rich.table import Table
from simulated_cuda.commands import on_simulated_gpu
from simulated_cuda.test_calibrate import GPU, PEAKS, POWER_CAP, TAKE_PEAKS

from harness.core.stats.estimate import median_between_ticks

SEEDS = int(os.environ.get("HARNESS_BENCH_SEEDS", "20"))
BUDGET_S = 0.05
BOOST_HZ = 1.98e9
KERNELS_S = (5e-6, 20e-6, 100e-6, 1e-3, 10e-3, 100e-3)
CHAINS = (1, 100, 900, 1100, 3000, 10_000)
SIZES = (64, 128, 256, 320, 332, 512, 1024, 2048)
STARTS_S = (0.05, 0.5, 2.0)
CLOCKS: dict[str, Callable[[], SimClock]] = {
    "steady": lambda: SimClock(BOOST_HZ),
    "falls by 25 % under load": lambda: SimClock(BOOST_HZ, 0.75 * BOOST_HZ, 30e-3),
    "falls by 25 % at once": lambda: SimClock(BOOST_HZ, falls_at_s=0.12),
}
CONSOLE = Console(width=120)
on_every_gpu = pytest.mark.parametrize("name", GPUS)


def _gpu(name: str, seed: int, clock: SimClock | None = None) -> SimGpu:
    gpu = SimGpu(**GPUS[name](), seed=seed, clock=clock or SimClock(BOOST_HZ))
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


def _allowed(gpu: SimGpu, time_s: float) -> float:
    """The largest error, as a share. The mean of a hundred times between two ticks may be off by a tenth of a tick."""
    return max(0.01, 0.1 * gpu.tick_s / time_s)


def _errors(errors: list[float]) -> tuple[str, str]:
    return f"{median(errors):.3%}", f"{max(errors):.3%}"


@on_every_gpu
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
            beyond.append(max(errors) - _allowed(gpu, kernel_s))
            rows.append((falls, f"{1e6 * kernel_s:g} µs", *_errors(errors)))
    _told(f"A jittery host, {name} GPU", ("clock rate", "kernel", "error, median", "largest"), rows)
    assert max(beyond) < 0


@on_every_gpu
def test_chains_of_launches(name: str) -> None:
    """Kernels of 6 µs, fewer and more than fit into the queue of 1,000 entries."""
    rows, beyond = [], []
    for launches in CHAINS:
        errors, ways = [], set()
        for seed in range(SEEDS):
            gpu = _gpu(name, seed)
            call = gpu.layer(launches, 6e-6)
            time_s, extras = _timed(gpu, call)
            errors.append(abs(time_s / call.cold_by(extras["gpu_time_by"]) - 1))
            ways.add(str(extras["gpu_time_by"]))
        beyond.append(max(errors) - _allowed(gpu, call.cold_s))
        rows.append((f"{launches:,}", ", ".join(sorted(ways)), *_errors(errors)))
    _told(f"Chains of launches, {name} GPU", ("launches", "timed", "error, median", "largest"), rows)
    assert max(beyond) < 0


@on_every_gpu
def test_a_loop_over_n(name: str) -> None:
    """Three kernels for each of n steps. All times are of graphs, as in the summary."""
    exponents, jumps = [], []
    for seed in range(SEEDS):
        with pytest.MonkeyPatch.context() as patch:
            exponent, jump = exponent_and_jump({n: _gpu(name, seed) for n in SIZES}, patch, BUDGET_S)
        exponents.append(exponent)
        jumps.append(jump)
    row = (f"{min(exponents):.4f} to {max(exponents):.4f}", f"{max(jumps):.2%}")
    _told(f"A loop over n = 64 to 2048, {name} GPU", ("exponent", "largest difference of the time per step"), [row])
    assert max(abs(exponent - 1) for exponent in exponents) <= 0.02
    assert max(jumps) < 0.01


def test_peaks_with_a_start_up(tmp_path: Path) -> None:
    """The first call of each kernel waits for its start-up. A power cap lowers the clock rate to three quarters.

    Bursts are those of a steady clock, which is what their true values are known for.
    """
    flops, bytes_ = PEAKS["bfloat16"], GPU["hardware"]["bytes_per_s"]
    rows, largest = [], 0.0
    for start_s in STARTS_S:
        steady = {**GPU, "hardware": {**GPU["hardware"], "lazy_s": start_s}}
        burst, sustained = (_peaks(tmp_path, one) for one in (steady, {**steady, "clock": POWER_CAP}))
        errors = [
            burst["flops_per_s"] / flops - 1,
            sustained["sustained_flops_per_s"] / (0.75 * flops) - 1,
            burst["bandwidth_bytes_per_s"] / bytes_ - 1,
            sustained["sustained_bytes_per_s"] / bytes_ - 1,
        ]
        largest = max(largest, *map(abs, errors))
        rows.append((f"{start_s:g} s", *(f"{error:+.4%}" for error in errors)))
    headings = "start-up of a kernel", "FLOP/s, burst", "sustained", "bytes/s, burst", "sustained"
    _told("Errors of the peaks, bfloat16", headings, rows)
    assert largest < 0.03


def _peaks(cwd: Path, settings: dict[str, Any]) -> dict[str, float]:
    ended = on_simulated_gpu("-c", TAKE_PEAKS, cwd=cwd, settings=settings)
    assert ended.status == 0, ended.err
    return json.loads(ended.out)


def test_coverage_of_intervals() -> None:
    """How often the 95 % interval of whole trials contains the true value."""
    values_s = simulate_trials()
    shares = {f"{one.min_rounds} to {one.max_rounds}": share_held(values_s, one) for one in (QUICK, STANDARD)}
    rows = [(trials, f"{share:.1%}") for trials, share in shares.items()]
    _told(f"Coverage in {DRAWS:,} draws, usual GPU", ("trials", "intervals that contain the true value"), rows)
    assert all(0.93 <= share <= 0.97 for share in shares.values())
