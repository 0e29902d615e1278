"""`python -m bench.scale_process CASES real|pretended OUT`: one sweep of a layer that does nothing, in this process.

Prints, as JSON, what it cost this process: seconds of wall time, in all, inside trials and until the first of them,
and the peak of its resident memory in MiB, before the report is made. A run at OUT is continued.
"""

import json
import resource
import sys
import time
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from harness.cli.commands import main
from harness.core.config.machine import PLACE
from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor
from harness.core.run.outcome import TrialOutcome

SIZES, BATCHES, ROUNDS = 10, 10, 2
_KNOWN = {"family": "own", "has_heads": True, "import_s": 0.0, "forkable": True, "files": {}}
_WORK = ("flops", "flops_full", "ops", "depth", "depth_declared")
_BYTES = ("min", "weights", "inputs", "saved", "transient", "peak", "peak_resident")
_FACTS = dict.fromkeys((*_WORK, *(f"{name}_bytes" for name in _BYTES)), 4096)
# About as many samples as a short trial has.
_TIMED = {"samples_s": [1e-5 * (1 + i / 100) for i in range(40)], "probe_s": 1e-4, "calls_per_sample": 10}


def arguments(cases: int, out: str) -> list[str]:
    """A sweep of `cases` cases, a multiple of 100, a fifth of them verified: n and b stand for one another."""
    axes = ["impl=bench.no_op:NoOp", f"seq_len=range(1,{SIZES + 1})", f"batch_size=range(1,{BATCHES + 1})"]
    widths = [f"d_model=range(1,{cases // (SIZES * BATCHES) + 1})", "num_heads=1", "threads=1"]
    rounds = [f"precision.min_rounds={ROUNDS}", f"precision.max_rounds={ROUNDS}", "precision.patience_s=0"]
    return [*axes, *widths, *rounds, "precision.trial_s=0.0001", f"out={out}"]


class Counting(Executor):
    """Notes how long its trials take and when the first began."""

    inside_s, trials = 0.0, 0
    first_at: float | None = None

    def run(self, purpose: str, case: Case | None = None, extra: dict[str, Any] | None = None) -> TrialOutcome:
        """The outcome of a trial."""
        began = time.monotonic()
        outcome = self.outcome(purpose, case)
        if purpose not in ("machine", "describe"):
            Counting.first_at = self.first_at or began
            Counting.inside_s += time.monotonic() - began
            Counting.trials += 1
        return outcome

    def outcome(self, purpose: str, case: Case | None) -> TrialOutcome:
        return super().run(purpose, case)


class Pretending(Counting):
    """… of trials that it only pretends to make."""

    def start(self) -> None: ...

    def outcome(self, purpose: str, case: Case | None) -> TrialOutcome:
        return _pretended(purpose)


def _pretended(purpose: str) -> TrialOutcome:
    measured = {
        "machine": {"harness": str(PLACE)},
        "describe": _KNOWN,
        "verify": {"compiled": False},
        "facts": _FACTS,
        "time": _TIMED,
    }
    return TrialOutcome("ok", None, measured.get(purpose, {}), wall_s=0.03)


def measure(cases: int, pretended: bool, out: str) -> dict[str, Any]:
    """Carry the sweep out, the report left out, and say what it cost."""
    found: dict[str, Any] = {}

    def at_the_end(*_: Any) -> tuple[SimpleNamespace, list[str]]:
        ended = time.monotonic()
        found.update(
            wall_s=ended - began,
            first_s=(Counting.first_at or ended) - began,
            inside_s=Counting.inside_s,
            trials=Counting.trials,
            peak_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        )
        return SimpleNamespace(lines=[]), []

    began = time.monotonic()
    with (
        patch("harness.core.run.session.Executor", Pretending if pretended else Counting),
        patch("harness.cli.sweep.write_report", at_the_end),
        patch("harness.cli.sweep.show_report"),
        patch("harness.core.run.output_directory.OutputDirectory.unfinished", return_value=""),
    ):
        status = main(["sweep", *arguments(cases, out)])
    return {"status": status, **found}


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), sys.argv[2] == "pretended", sys.argv[3])))
