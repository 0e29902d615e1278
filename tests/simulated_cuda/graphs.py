"""Whole timed trials of calls that are captured as graphs, in one process with a simulated GPU. Prints their rows.

HARNESS_SIMULATED_CUDA=… PYTHONPATH=tests/simulated_cuda/startup:tests:. python -m simulated_cuda.graphs
"""

import json
from typing import Any

from torch import Tensor, nn

from harness.sweep_axes import Case
from harness.trial.timing.timed_trial import measure_time

SIZES: dict[str, Any] = {"seq_len": 16, "d_model": 16, "num_heads": 2, "device": "cuda"}
CASES = {
    "backward": Case("rnn.elman", mode="backward", launch="graph", **SIZES),
    "train": Case("attention.naive", mode="train", launch="graph", **SIZES),
    "waits": Case("simulated_cuda.graphs:DropsAndWaits", **SIZES),
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


def main() -> None:
    """Print the rows of all cases."""
    rows = {name: measure_time(case, 0, 0.02, check=False) for name, case in CASES.items()}
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
