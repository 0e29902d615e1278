"""The true costs of cases on the simulated GPU, from its own books: no event, no sampler.

HARNESS_SIMULATED_CUDA=… PYTHONPATH=tests/simulated_cuda/startup:tests:. python -m simulated_cuda.truth CASES.json
"""

import json
import sys
from collections.abc import Callable
from multiprocessing import Pipe, get_context
from pathlib import Path
from typing import Any

import torch
from core.trial.timing.cuda.simulated_gpu import Kernel
from simulated_cuda import process

from harness.core.model.sweep_axes import Case
from harness.core.trial.device_kinds import FLUSH_FACTOR
from harness.core.trial.workload import build

# Which lines a cache keeps settles within some dozens of calls. A hot batch has more.
_UNTIL_STEADY = 50


def true_s(case: Case) -> dict[str, float]:
    """The seconds of a call's kernels, by the state of the cache, and as a graph, and the number of its launches.

    `hot_s` is after many other calls, `cold_s` after a flush, `clean_s` after one whose lines were written back, and
    `graph_s` after a flush, as one launch.
    """
    torch.set_grad_enabled(True)  # a forward pass among the cases before has switched gradients off
    work = build(case, seed=0)
    gpu = process.here().gpu
    buffer = torch.zeros(FLUSH_FACTOR * gpu.l2.size // 4, device="cuda")
    kernels: list[Kernel] = []

    def took_s(launch: Callable[[], object] = work.call) -> float:
        work.sync()
        gpu.entries.clear()
        launch()
        return sum(entry.end_s - entry.begin_s for entry in gpu.entries)

    for _ in range(_UNTIL_STEADY):
        work.call()
    found = {"hot_s": took_s()}
    found["launches"] = len(gpu.entries)
    buffer.zero_()
    found["cold_s"] = took_s()
    buffer.zero_()
    buffer.sum()
    found["clean_s"] = took_s()
    gpu.begin_capture(kernels)
    work.call()
    gpu.end_capture()
    buffer.zero_()
    return {**found, "graph_s": took_s(lambda: gpu.replay(kernels)) - gpu.graph_launch_s}


def alone(case: Case) -> dict[str, float]:
    """`true_s` in a process of its own, as a trial has: what earlier cases have left would decide on the blocks."""
    receiver, sender = Pipe(duplex=False)
    trial = get_context("fork").Process(target=lambda: sender.send(true_s(case)))
    trial.start()
    trial.join()
    if trial.exitcode != 0:
        raise SystemExit(f"{case}: no true costs")
    return receiver.recv()


def main() -> None:
    """Print the true costs of the cases in a file, in its order."""
    cases: list[dict[str, Any]] = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps([alone(Case.from_dict(case)) for case in cases]))


if __name__ == "__main__":
    main()
