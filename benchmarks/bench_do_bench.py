"""The same call timed by this harness and by triton.testing.do_bench, in turns in one process; on a GPU.

    python -m pytest -s benchmarks/bench_do_bench.py

Both clear the L2 cache before each sample and time between two events. Compared is what a trial reports, its median.
do_bench does not subtract the time of an empty pair of events, so that is added back: it has a column of its own. A
third time is that of the kernels alone, by CUPTI, which both approach from above.

Each turn of ours ends with half a second under load, after which the clock rate may be lower. So the two sides change
places from turn to turn. Beside the ratio of times is that of cycles: a call that computes takes as many cycles at
every clock rate, and one that waits for memory takes as much time. A case fails if neither ratio is within 1 %, unless
the call takes less than 50 µs or is host-bound. Kernels alone have no such limit, because the gaps between them count.

The clock rate of either side is that between its samples. A GPU at rest clocks up within milliseconds, so a rate
measured after do_bench would be another one. do_bench clears gradients before a sample, outside of its events: a
stand-in for a tensor measures the rate there, before every eighth sample. If the call is host-bound, the GPU waits for
that measurement, and its rate is unknown.

Beside the ratios is what either side says of the host: ours labels a call host-bound whose calls back to back take
longer than its work; torch's profiler has the time in kernels, and where that is well below the time of calls back to
back, the GPU has waited. A call of more launches than the queue holds is timed as a graph, which do_bench is not: it
has no ratio.

Each case is a test, and is printed at once. With HARNESS_BENCH_RECORDS=DIR it is kept in `clock.jsonl` there, and a
later call judges it without measuring it again.

On a simulated GPU (HARNESS_SIMULATED_CUDA), one small case is timed beside a stand-in for do_bench. What CUPTI would
tell has none: the columns say "no CUPTI", as they do for any torch without it.
"""

import json
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest
import torch

from harness.core.model.sweep_axes import Case
from harness.core.stats.estimate import value_of_trial
from harness.core.trial.device_kinds import TorchDevice
from harness.core.trial.timing import cuda
from harness.core.trial.timing.cuda_sampling import Sampling
from harness.core.trial.workload import build

TURNS = int(os.environ.get("HARNESS_BENCH_TURNS", "7"))
RECORDS = os.environ.get("HARNESS_BENCH_RECORDS")
SAMPLING_S = 0.1
SIMULATED = bool(os.environ.get("HARNESS_SIMULATED_CUDA"))


def _attention(impl: str, seq_len: int, batch_size: int = 1) -> Case:
    return Case(impl, seq_len, 1024, 16, batch_size=batch_size, dtype="bfloat16", device="cuda")


# The most telling ones first: long and short kernels, one of many launches, one that the host bounds.
CASES = (
    _attention("sdpa.flash", 4096, batch_size=4),
    _attention("sdpa.flash", 1024, batch_size=4),
    _attention("sdpa.naive", 256),
    _attention("attention.fused", 256),
    Case("rnn.gru.torch", 512, 256, 1, device="cuda"),
    _attention("sdpa.flash", 256, batch_size=4),
    _attention("sdpa.naive", 4096),
    _attention("attention.fused", 4096),
    Case("conv.conv1d", 4096, 1024, 1, dtype="bfloat16", device="cuda"),
    _attention("sdpa.flash", 16384, batch_size=4),
    _attention("sdpa.naive", 1024),
    Case("rnn.elman", 512, 256, 1, device="cuda"),
)
if SIMULATED:
    CASES = (Case("attention.fused", 16, 16, 2, device="cuda"),)
_CLOCK_EVERY = 8
# Ratios of calls longer than this have to be within this share of 1.
_LONG_S, _WITHIN = 50e-6, 0.01
# Where kernels fill less than this of the time between calls, the GPU waits for the host.
_BUSY = 0.9
_NO_CUPTI = "no CUPTI"
# The headings of the table, and how wide each column is.
_COLUMNS = {
    "case": 74,
    "ours µs": 9,
    "empty pair µs": 13,
    "do_bench µs": 11,
    "kernels µs": 10,
    "ratio": 6,
    "in cycles": 9,
    "ours MHz": 8,
    "do_bench MHz": 12,
    "ours by": 7,
    "host-bound: ours": 16,
    "by the profiler": 15,
    "busy": 7,
}

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device here")


class ClockBetweenSamples:
    """What do_bench takes for a tensor. Whenever its gradient is cleared, the clock rate is due to be measured."""

    def __init__(self, sampling: Sampling) -> None:
        self._sampling, self._cleared = sampling, 0
        self._rates: list[Callable[[], float | None]] = []

    @property
    def grad(self) -> None:
        return None

    @grad.setter
    def grad(self, value: None) -> None:
        if self._cleared % _CLOCK_EVERY == 0:
            self._rates.append(self._sampling._enqueue_clock())
        self._cleared += 1

    def hz(self) -> float:
        """The median rate, once the GPU has reached all measurements; 0 if it is unknown."""
        rates = [rate() for rate in self._rates]
        return median(rate or 0.0 for rate in rates)


@dataclass
class Turns:
    """What the turns of one case have shown, in seconds and Hz."""

    case: str
    ours_s: list[float] = field(default_factory=list)
    do_bench_s: list[float] = field(default_factory=list)
    pair_s: list[float] = field(default_factory=list)
    ours_hz: list[float] = field(default_factory=list)
    do_bench_hz: list[float] = field(default_factory=list)
    host_bound: list[bool] = field(default_factory=list)
    by: str | None = None
    kernels_s: float | None = None
    busy: float | None = None

    @property
    def ratio(self) -> float:
        """Our time over that of do_bench, the median of the turns."""
        return median(ours / theirs for ours, theirs in zip(self.ours_s, self.do_bench_s, strict=True))

    @property
    def ratio_of_cycles(self) -> float | None:
        """The same ratio of cycles; None if a clock rate is unknown."""
        rates = [*self.ours_hz, *self.do_bench_hz]
        if self.is_host_bound or not rates or 0.0 in rates:
            return None
        cycles = zip(self.ours_s, self.ours_hz, self.do_bench_s, self.do_bench_hz, strict=True)
        return median(ours * ours_hz / (theirs * their_hz) for ours, ours_hz, theirs, their_hz in cycles)

    @property
    def is_host_bound(self) -> bool:
        """What most turns say."""
        return sum(self.host_bound) > len(self.host_bound) / 2

    def is_far_off(self) -> bool:
        """Whether no ratio is 1 where one has to be: of a held call which is neither short nor host-bound."""
        has_limit = self.by == "held" and median(self.ours_s) > _LONG_S and not self.is_host_bound
        ratios = [self.ratio] if self.ratio_of_cycles is None else [self.ratio, self.ratio_of_cycles]
        return has_limit and min(abs(ratio - 1) for ratio in ratios) > _WITHIN

    def cells(self) -> list[str]:
        """The line of the table."""
        cycles = self.ratio_of_cycles
        kernels = _NO_CUPTI if self.kernels_s is None else _us([self.kernels_s])
        is_waiting = _NO_CUPTI if self.busy is None else _yes(self.busy < _BUSY)
        return [
            self.case,
            _us(self.ours_s),
            _us(self.pair_s),
            _us(self.do_bench_s),
            kernels,
            f"{self.ratio:.3f}" if self.by == "held" else "–",
            "–" if cycles is None else f"{cycles:.3f}",
            _mhz(self.ours_hz),
            _mhz([] if self.is_host_bound else self.do_bench_hz),
            str(self.by),
            _yes(self.is_host_bound),
            is_waiting,
            "–" if self.busy is None else f"{self.busy:.0%}",
        ]


def _us(seconds: list[float]) -> str:
    return f"{1e6 * median(seconds):,.1f}"


def _mhz(rates_hz: list[float]) -> str:
    return f"{median(rates_hz) / 1e6:.0f}" if rates_hz else "–"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _print_line(cells: list[str]) -> None:
    print(*(cell.rjust(width) for cell, width in zip(cells, _COLUMNS.values(), strict=True)), flush=True)


@pytest.fixture
def do_bench() -> Callable[..., float]:
    """Triton's function, or its stand-in on a simulated GPU."""
    return pytest.importorskip("simulated_cuda.do_bench" if SIMULATED else "triton.testing").do_bench


@pytest.fixture(scope="module")
def kept() -> dict[str, Turns]:
    """The cases that earlier calls have measured. The fixture also prints the heading."""
    print()
    _print_line(list(_COLUMNS))
    if RECORDS is None:
        return {}
    file = _file(RECORDS)
    lines = file.read_text().splitlines() if file.exists() else []
    measured = [Turns(**json.loads(line)) for line in lines if line.endswith("}")]
    return {turns.case: turns for turns in measured}


def _file(records: str) -> Path:
    return Path(records) / "clock.jsonl"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_beside_do_bench(case: Case, kept: dict[str, Turns], do_bench: Callable[..., float]) -> None:
    turns = kept.get(str(case)) or _measure(case, do_bench)
    _print_line(turns.cells())
    assert not turns.is_far_off(), f"{turns.ratio:.3f} times as long, {turns.ratio_of_cycles} times the cycles"


def _measure(case: Case, do_bench: Callable[..., float]) -> Turns:
    torch.set_grad_enabled(True)
    call = build(case, seed=0).call
    turns = Turns(str(case))
    device = TorchDevice()
    sampling = Sampling(call, device)

    def time_ours() -> None:
        samples, extras = cuda.sample_cuda(call, SAMPLING_S, TorchDevice())
        turns.ours_s.append(value_of_trial(np.array(samples.samples_s), "cuda") + samples.clock_s)
        turns.pair_s.append(samples.clock_s)
        turns.host_bound.append(bool(extras["host_bound"]))
        turns.ours_hz.append(1e6 * (extras["sm_clock_mhz"] or 0.0))
        turns.by = extras["gpu_time_by"]

    def time_theirs() -> None:
        clock = ClockBetweenSamples(sampling)
        median_ms = do_bench(call, warmup=25, rep=1e3 * SAMPLING_S, return_mode="median", grad_to_none=[clock])
        turns.do_bench_s.append(median_ms / 1e3)
        turns.do_bench_hz.append(clock.hz())

    for turn in range(TURNS):
        sides = (time_ours, time_theirs) if turn % 2 == 0 else (time_theirs, time_ours)
        for time_side in sides:
            time_side()
    if torch.profiler.ProfilerActivity.CUDA in torch.profiler.supported_activities():
        turns.busy, turns.kernels_s = busy(call, torch.profiler.ProfilerActivity.CUDA)
    if RECORDS is not None:
        with _file(RECORDS).open("a") as file:
            file.write(json.dumps(asdict(turns)) + "\n")
    return turns


def busy(call: Callable[[], Any], activity: torch.profiler.ProfilerActivity, calls: int = 30) -> tuple[float, float]:
    """The share of the time of calls back to back in which kernels ran, and the seconds of a call's kernels."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        call()
    torch.cuda.synchronize()
    wall_s = time.perf_counter() - began
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*Profiler clears events at the end of each cycle", UserWarning)
        with torch.profiler.profile(activities=[activity]) as profile:
            for _ in range(calls):
                call()
            torch.cuda.synchronize()
        kernels_s = sum(event.self_device_time_total for event in profile.key_averages()) / 1e6
    return kernels_s / wall_s, kernels_s / calls
