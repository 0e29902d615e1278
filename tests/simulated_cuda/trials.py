"""Trials in one process with a simulated GPU. Prints what they found.

HARNESS_SIMULATED_CUDA=… PYTHONPATH=tests/simulated_cuda/startup:tests:. python -m simulated_cuda.trials WHICH

WHICH is timed, peaks or do_bench.
"""

import json
import os
import sys
from statistics import median
from time import perf_counter
from typing import Any

import torch
from simulated_cuda import process
from simulated_cuda.do_bench import do_bench
from simulated_cuda.truth import true_s
from torch import Tensor, nn
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from harness.core.model.sweep_axes import Case
from harness.core.trial.call_memory import allocator_peak
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.counts.operations import Observer
from harness.core.trial.device_kinds import TorchDevice
from harness.core.trial.timing.cuda import sample_cuda
from harness.core.trial.timing.timed_trial import measure_time, take_turns
from harness.core.trial.workload import build

SIZES: dict[str, Any] = {"seq_len": 16, "d_model": 16, "num_heads": 2, "device": "cuda"}
FORWARD = Case("attention.fused", **SIZES)
CASES = {
    "backward": Case("rnn.elman", mode="backward", launch="graph", **SIZES),
    "train": Case("attention.naive", mode="train", launch="graph", **SIZES),
    "step": Case("attention.naive", mode="train", **SIZES),
    "waits": Case("simulated_cuda.trials:DropsAndWaits", **SIZES),
    "forward": Case("attention.naive", **SIZES),  # after those with gradients, which it switches off
}


class DropsAndWaits(nn.Module):
    """Dropout, then a wait for the GPU, with which a call can be neither held nor captured."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.project = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """From (b, n, d) to (b, n, d)."""
        y = self.project(nn.functional.dropout(x, 0.5, training=True))
        return y if y.isfinite().all() else x


class NeedsMoreWatched(nn.Module):
    """A layer that has no room while its operations are watched, as a compiled one that then runs uncompiled."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.project = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor) -> Tensor:
        """From (b, n, d) to (b, n, d)."""
        if any(isinstance(mode, Observer) for mode in _get_current_dispatch_mode_stack()):
            torch.empty(2 * process.settings().memory_bytes, dtype=torch.uint8, device="cuda")
        return self.project(x)


def timed() -> dict[str, dict[str, Any]]:
    """The rows of timed trials, most of which are captured as graphs, an interleaved trial, and a truth."""
    rows = {name: measure_time(case, 0, 0.02, check=False) for name, case in CASES.items()}
    return {**rows, "turns": turns(), "true_step": true_s(CASES["step"])}


def turns() -> dict[str, float]:
    """What an interleaved trial says before its first turn, the seconds of a call, and when it says so."""
    asked, ask = os.pipe()
    answered, answer = os.pipe()
    os.close(ask)  # no turn is asked for
    begin = perf_counter()
    take_turns(CASES["forward"], 0, 2e-3, 0.01, asked, answer)
    return {**json.loads(os.read(answered, 1000)), "took_s": perf_counter() - begin}


def peaks() -> dict[str, int]:
    """The peak memory of a call: of the first one in the process, and as the harness reports it."""
    first = allocator_peak(build(CASES["train"], 0).call, "cuda")[0]
    return {"first": first, "reported": collect_metrics(CASES["train"], 0)["peak_bytes"]}


def beside_do_bench() -> dict[str, float]:
    """The seconds of a call by the harness and by do_bench, and the true ones; all with an empty pair of events."""
    call = build(FORWARD, 0).call
    samples, _ = sample_cuda(call, 0.02, TorchDevice())
    return {
        "harness": median(samples.samples_s) + samples.clock_s,
        "do_bench": do_bench(call, warmup=25, rep=100, return_mode="median") / 1e3,
        "true": true_s(FORWARD)["cold_s"] + process.here().gpu.event_s,
    }


if __name__ == "__main__":
    print(json.dumps({"timed": timed, "peaks": peaks, "do_bench": beside_do_bench}[sys.argv[1]]()))
