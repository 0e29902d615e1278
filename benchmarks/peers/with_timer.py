"""`torch.utils.benchmark.Timer`: its two ways to choose the number of calls, and the median that both report.

Run as a module it is the process that measures: a request comes in on stdin, medians go out on stdout.
"""

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.method import OneProcess, Readings, child
from harness.core.model.sweep_axes import Case

# Of the time that is left, divided by the cases that are left, a case gets between these two, by the Timer's own rule.
_ADAPTIVE_LEAST = 0.75
_ADAPTIVE_MOST = 1.5
# Never none: it takes a `max_run_time` of 0 for no limit at all.
_LEAST_S = 1e-3


class _Timer(OneProcess):
    isolation = "one process for all cases, one case after the other"
    way: str

    def run(self, cases: Sequence[Case], share_s: float) -> Readings:
        request = {"way": self.way, "cases": [case.as_dict() for case in cases], "share_s": share_s}
        medians = json.loads(child(["-m", "bench.peers.with_timer"], request=request))
        return {"median": dict(zip(cases, medians, strict=True))}


class BlockedAutorange(_Timer):
    """`blocked_autorange(min_run_time)`, the same time for every case."""

    name = "torch Timer, blocked_autorange"
    short = "blocked"
    way = "blocked"


class AdaptiveAutorange(_Timer):
    """`adaptive_autorange()` at its own threshold. What it saves on steady cases goes to those after them."""

    name = "torch Timer, adaptive_autorange"
    short = "adaptive"
    way = "adaptive"


def _serve(request: dict[str, Any]) -> list[float]:
    from torch.utils.benchmark import Timer

    from harness.core.trial.workload import build

    cases = [Case.from_dict(fields) for fields in request["cases"]]
    share_s = request["share_s"]
    deadline = time.monotonic() + share_s * len(cases)
    medians = []
    for done, case in enumerate(cases):
        timer = Timer("call()", globals={"call": build(case, 0).call}, num_threads=case.threads)
        if request["way"] == "blocked":
            measured = timer.blocked_autorange(min_run_time=share_s)
        else:
            left_s = max(_LEAST_S, (deadline - time.monotonic()) / (len(cases) - done))
            measured = timer.adaptive_autorange(
                min_run_time=_ADAPTIVE_LEAST * left_s, max_run_time=_ADAPTIVE_MOST * left_s
            )
        medians.append(measured.median)
    return medians


if __name__ == "__main__":
    print(json.dumps(_serve(json.load(sys.stdin))))
