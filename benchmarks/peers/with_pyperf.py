"""pyperf: many cold processes a case, a few values in each, and the mean of all; slow, and asked for few cases only.

Run as a module it is pyperf's manager for one case, which starts the same module again for each of its processes.
"""

import json
import os
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyperf

from benchmarks.peers.method import Readings, child
from harness.core.model.sweep_axes import Case

OPTIONS = os.environ.get("HARNESS_BENCH_PYPERF_OPTIONS", "--fast")


class Pyperf:
    """Its mean is what it reports first; the median is beside it in its statistics."""

    name = f"pyperf {OPTIONS}"
    short = "pyperf"
    isolation = "a cold process for every two or three values, many a case; one case after the other"

    def measure(self, cases: Sequence[Case], wall_s: float) -> Readings:
        """`wall_s` is not used: it takes the time that its options ask for."""
        readings: Readings = {"mean": {}, "median": {}}
        for case in cases:
            measured = self._measure(case)
            readings["mean"][case] = measured.mean()
            readings["median"][case] = measured.median()
        return readings

    def _measure(self, case: Case) -> pyperf.Benchmark:
        with tempfile.TemporaryDirectory() as folder:
            kept = Path(folder) / "values.json"
            arguments = ["--case", json.dumps(case.as_dict()), "--quiet", "--output", str(kept), *shlex.split(OPTIONS)]
            child(["-m", "bench.peers.with_pyperf", *arguments])
            return pyperf.Benchmark.load(str(kept))


def _hand_on(command: list[str], arguments) -> None:
    command += ["--case", arguments.case]


def _main() -> None:
    runner = pyperf.Runner(program_args=("-m", "bench.peers.with_pyperf"), add_cmdline_args=_hand_on)
    runner.argparser.add_argument("--case")
    arguments = runner.parse_args()
    case = Case.from_dict(json.loads(arguments.case))
    runner.bench_func(str(case), _call(case) if arguments.worker else _in_worker_only)


def _call(case: Case):
    from harness.core.trial.workload import build

    return build(case, 0).call


def _in_worker_only() -> None:
    raise RuntimeError("pyperf calls what it measures in its workers, never in its manager")


if __name__ == "__main__":
    _main()
