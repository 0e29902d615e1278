"""Whole commands on the simulated GPU, as processes of their own."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from forked_servers import ADDRESS, FORKED, WITH_LAYERS, WITH_SWEEP, Origin

from harness.core.model.sweep_axes import Case

TESTS = Path(__file__).resolve().parents[1]
# Trials differ by less than the tests allow. Without NVML they take a third of the time.
STEADY: dict[str, Any] = {"clock": {"sustained_hz": None}, "spread": 0.002, "nvml": False}
# A call of `attention.naive` at n = 32 takes 1.4 ms. So a turn of 2 ms has few calls, each of whose kernels takes the
# simulation as long as any other.
GPU: dict[str, Any] = {
    **STEADY,
    "hardware": {"bytes_per_s": 5e7},
    "flops_per_s": {"float64": 2e7, "float32": 1e8, "bfloat16": 1e13},
}
# Of the CPU, on which the simulation computes. Beside other jobs, two threads wait ten times as long for each other.
ONE_THREAD = "threads=1"
TWO_ROUNDS = ("precision.min_rounds=2", "precision.max_rounds=2", "precision.patience_s=0", "precision.trial_s=0.01")
# Plots take 3 s of a command. The first sweep of `test_sweep` has them.
NO_PLOTS = "--no-plots"


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    err: str


def environment(settings: dict[str, Any]) -> dict[str, str]:
    """The variables of processes that have a simulated GPU."""
    path = os.pathsep.join(map(str, (TESTS / "simulated_cuda" / "startup", TESTS, TESTS.parent)))
    # pytest's own variables would make the harness take its plugin's side.
    own = {name: value for name, value in os.environ.items() if name not in ("CUDA_VISIBLE_DEVICES",)}
    return {**own, "PYTHONPATH": path, "HARNESS_SIMULATED_CUDA": json.dumps(settings)}


@cache
def _origin() -> Origin:
    """The origin of all commands and their fork servers. Each of them would take two seconds to import torch."""
    started = Origin(WITH_LAYERS + WITH_SWEEP)
    started.start({**environment({}), ADDRESS: started.address})
    return started


def on_simulated_gpu(*arguments: str, cwd: Path, settings: dict[str, Any] = STEADY, limit_s: float = 200) -> Ended:
    """Run `python ARGUMENTS` in `cwd`."""
    # A temporary directory for each command: the lock of a GPU is there, and all simulated ones are the same GPU.
    with tempfile.TemporaryDirectory() as temporary:
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=cwd,
            env={**environment(settings), "TMPDIR": temporary, ADDRESS: _origin().address, FORKED: "1"},
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
    return Ended(done.returncode, done.stdout, done.stderr)


def harness(*arguments: str, cwd: Path, settings: dict[str, Any] = STEADY, limit_s: float = 200) -> Ended:
    """Run a command of the harness."""
    return on_simulated_gpu("-m", "harness", *arguments, cwd=cwd, settings=settings, limit_s=limit_s)


def true_costs(cases: Iterable[Case], cwd: Path, settings: dict[str, Any] = STEADY) -> list[dict[str, float]]:
    """The true seconds of each case (`truth.true_s`), from the GPU's books. Its clock rate is that of no noise."""
    file = cwd / "cases.json"
    file.write_text(json.dumps([asdict(case) for case in cases]))
    ended = on_simulated_gpu("-m", "simulated_cuda.truth", str(file), cwd=cwd, settings={**settings, "spread": 0.0})
    assert ended.status == 0, ended.err
    return json.loads(ended.out)
