"""The true costs of cases on the simulated GPU, from its own books: no event, no sampler.

HARNESS_SIMULATED_CUDA=… PYTHONPATH=tests/simulated_cuda/startup:tests:. python -m simulated_cuda.truth CASES.json
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from simulated_cuda import process

from harness.sweep_axes import Case
from harness.trial.timing.cuda_device import FLUSH_FACTOR
from harness.trial.workload import build

# Which lines a cache keeps settles within a few calls. A hot batch has many.
_UNTIL_STEADY = 5


def true_s(case: Case) -> dict[str, float]:
    """The seconds of a call's kernels after many others (`hot_s`), and after a flush (`cold_s`)."""
    work = build(case, seed=0)
    gpu = process.here().gpu
    buffer = torch.zeros(FLUSH_FACTOR * gpu.l2.size // 4, device="cuda")

    def took_s() -> float:
        work.sync()
        gpu.entries.clear()
        work.call()
        return sum(entry.end_s - entry.begin_s for entry in gpu.entries)

    for _ in range(_UNTIL_STEADY):
        work.call()
    hot_s = took_s()
    buffer.zero_()
    return {"hot_s": hot_s, "cold_s": took_s()}


def main() -> None:
    """Print the true costs of the cases in a file, in its order."""
    cases: list[dict[str, Any]] = json.loads(Path(sys.argv[1]).read_text())
    print(json.dumps([true_s(Case.from_dict(case)) for case in cases]))


if __name__ == "__main__":
    main()
