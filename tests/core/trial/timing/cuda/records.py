"""The records of GPUs that the recorder has written, and simulated GPUs that cost the same.

`.ci/cuda … --publish` puts the record of a real GPU into `recorded/`. The tests of the sampler and of whole commands
then run on its costs too. This module imports neither torch nor the harness: a process gets its simulated GPU before
both.
"""

import json
from pathlib import Path
from typing import Any

from core.trial.timing.cuda.simulated_gpu import SimClock, SimGpu

RECORDED = Path(__file__).parent / "recorded"
_QUEUE = ("depth", "launch_s", "event_launch_s", "wait_s", "query_s", "event_s", "tick_s", "jitter", "stall_s")
_KERNELS = ("gap_s", "graph_gap_s", "graph_launch_s", "graph_node_s", "lazy_s", "evicted")
_MEMORY = ("l2_bytes", "bytes_per_s")


def recorded_files() -> dict[str, Path]:
    """The records of real GPUs, by the names of the GPUs."""
    return {path.stem: path for path in sorted(RECORDED.glob("*.json"))}


def write(found: dict[str, Any], path: Path) -> None:
    """Write a record to a file, which `read` reads: a line for each value."""
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in found.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def read(path: Path) -> dict[str, Any]:
    """The record in a file."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def launch_costs(recorded: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `SimGpu`: what the queue, events, launches and graphs of the recorded GPU cost."""
    return {name: recorded[name] for name in (*_QUEUE, *_KERNELS)}


def costs(recorded: dict[str, Any]) -> dict[str, Any]:
    """Arguments of `SimGpu`: all recorded costs. The clock rates are in `clock_rates`."""
    return {**launch_costs(recorded), **{name: recorded[name] for name in _MEMORY}}


def clock_rates(recorded: dict[str, Any]) -> dict[str, float]:
    """Arguments of `SimClock`: the clock rates of the recorded GPU."""
    rates = {name: recorded[name] for name in ("boost_hz", "sustained_hz")}
    return {**rates, "tau_s": max(recorded["tau_s"], 1e-3)}


def gpu_of(recorded: dict[str, Any], **changed: Any) -> SimGpu:
    """A simulated GPU with the recorded costs, but for those that are `changed`."""
    return SimGpu(**{**costs(recorded), "clock": SimClock(**clock_rates(recorded)), **changed})
