"""The same call timed by this harness and by triton.testing.do_bench, in turns in one process; on a GPU.

    python -m pytest -s tests/bench/bench_do_bench.py

Both clear the L2 cache before each sample and time between two events. Compared is what a trial reports, its median.
do_bench does not subtract the time of an empty pair of events, so that is added back: it has a column of its own. A
third time is that of the kernels alone, by CUPTI, which both approach from above.

Beside the ratio is what either side says of the host: ours labels a call host-bound whose calls back to back take
longer than its work; torch's profiler has the time in kernels, and where that is well below the time of calls back to
back, the GPU has waited. A call of more launches than the queue holds is timed as a graph, which do_bench is not: it
has no ratio. The test fails unless each ratio is within 1 % where a call takes more than 50 µs and is not host-bound.
Kernels alone have no such limit, because the gaps between them count too: `of kernels` is for the reader.

On a simulated GPU (HARNESS_SIMULATED_CUDA), one small case is timed beside a stand-in for do_bench. What CUPTI would
tell has none: the table says "no CUPTI", as it does for any torch without it.
"""

import os
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from rich.table import Table

from harness.stats.estimate import value_of_trial
from harness.sweep_axes import Case
from harness.trial.timing.cuda import sample_cuda
from harness.trial.timing.cuda_device import TorchDevice
from harness.trial.workload import build

TURNS = int(os.environ.get("HARNESS_BENCH_TURNS", "7"))
SAMPLING_S = 0.1
SIMULATED = bool(os.environ.get("HARNESS_SIMULATED_CUDA"))
# From kernels of some microseconds to some of many milliseconds; the loop of many launches is the host's matter.
CASES = (
    *(Case("sdpa.flash", n, 1024, 16, batch_size=4, dtype="bfloat16", device="cuda") for n in (256, 1024, 4096, 16384)),
    *(Case("sdpa.naive", n, 1024, 16, dtype="bfloat16", device="cuda") for n in (256, 1024, 4096)),
    *(Case("attention.fused", n, 1024, 16, dtype="bfloat16", device="cuda") for n in (256, 4096)),
    Case("conv.conv1d", 4096, 1024, 1, dtype="bfloat16", device="cuda"),
    Case("rnn.gru.torch", 512, 256, 1, device="cuda"),
    Case("rnn.elman", 512, 256, 1, device="cuda"),
)
if SIMULATED:
    CASES = (Case("attention.fused", 16, 16, 2, device="cuda"),)
# Ratios of calls longer than this have to be within this share of 1.
_LONG_S, _WITHIN = 50e-6, 0.01
# Where kernels fill less than this of the time between calls, the GPU waits for the host.
_BUSY = 0.9
_NO_CUPTI = "no CUPTI"

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here")


@pytest.fixture
def do_bench() -> Callable[..., float]:
    """Triton's function, or its stand-in on a simulated GPU."""
    return pytest.importorskip("simulated_cuda.do_bench" if SIMULATED else "triton.testing").do_bench


def test_beside_do_bench(do_bench: Callable[..., float]) -> None:
    table = Table(title=f"Ours over do_bench, medians of {TURNS} turns", title_justify="left")
    for heading in (
        "case",
        "ours µs",
        "empty pair µs",
        "do_bench µs",
        "kernels µs",
        "of kernels",
        "ours by",
        "ratio",
        "host-bound: ours",
        "the profiler",
        "busy",
    ):
        table.add_column(heading, justify="right")
    far_off = []
    for case in CASES:
        torch.set_grad_enabled(True)
        call = build(case, seed=0).call
        ours, theirs, pairs, labels = [], [], [], []
        for _ in range(TURNS):
            samples, extras = sample_cuda(call, SAMPLING_S, TorchDevice())
            ours.append(value_of_trial(np.array(samples.samples_s), "cuda") + samples.clock_s)
            pairs.append(samples.clock_s)
            labels.append(bool(extras["host_bound"]))
            by = extras["gpu_time_by"]
            theirs.append(do_bench(call, warmup=25, rep=1e3 * SAMPLING_S, return_mode="median") / 1e3)
        ratio = median(mine / other for mine, other in zip(ours, theirs, strict=True))
        is_host_bound = sum(labels) > TURNS / 2
        if is_far_off(ratio, median(ours), by, is_host_bound):
            far_off.append(f"{case}: {ratio:.3f}")
        kernels_us, label_of_profiler, busy = _by_profiler(call)
        kernels_s = float(kernels_us.replace(",", "")) / 1e6 if label_of_profiler != _NO_CUPTI else 0.0
        table.add_row(
            str(case),
            *(f"{1e6 * median(times):,.1f}" for times in (ours, pairs, theirs)),
            kernels_us,
            f"{median(ours) / kernels_s:.3f}" if kernels_s else "–",
            by,
            f"{ratio:.3f}" if by == "held" else "–",
            "yes" if is_host_bound else "no",
            label_of_profiler,
            busy,
        )
    Console(width=170).print(table)
    assert far_off == []


def is_far_off(ratio: float, ours_s: float, by: str, is_host_bound: bool) -> bool:
    """Whether a ratio that has to be 1 is not: that of a held call which is neither short nor host-bound."""
    return by == "held" and ours_s > _LONG_S and not is_host_bound and abs(ratio - 1) > _WITHIN


def _by_profiler(call: Callable[[], Any]) -> tuple[str, str, str]:
    """The table's cells: the µs of a call's kernels, whether it is host-bound, and the share of time with kernels."""
    if torch.profiler.ProfilerActivity.CUDA not in torch.profiler.supported_activities():
        return _NO_CUPTI, _NO_CUPTI, _NO_CUPTI
    busy, kernels_s = _busy(call)
    return f"{1e6 * kernels_s:,.1f}", "yes" if busy < _BUSY else "no", f"{busy:.0%}"


def _busy(call: Callable[[], Any], calls: int = 30) -> tuple[float, float]:
    """The share of the time of calls back to back in which kernels ran, and the seconds of a call's kernels."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    wall_s = time.perf_counter() - began
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(calls):
            call()
        torch.cuda.synchronize()
    kernels_s = sum(event.self_device_time_total for event in profile.key_averages()) / 1e6
    return kernels_s / wall_s, kernels_s / calls
