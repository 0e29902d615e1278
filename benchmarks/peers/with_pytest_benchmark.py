"""pytest-benchmark: its plugin, in a pytest of its own that runs `pytest_benchmark_cases.py`."""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers.method import OneProcess, Readings, child
from harness.core.model.sweep_axes import Case

_CASES = Path(__file__).with_name("pytest_benchmark_cases.py")
# Without warm-up it would take its number of rounds from the first call, which is far slower than any other.
_OPTIONS = ["--benchmark-warmup=on", "--benchmark-warmup-iterations=5", "--benchmark-disable-gc"]


class PytestBenchmark(OneProcess):
    """The time of each case is its `max_time`; of the statistics that its table shows, the fastest and the median."""

    name = "pytest-benchmark"
    short = "pytest-b."
    isolation = "one process for all cases, one case after the other; no garbage collection"

    def run(self, cases: Sequence[Case], share_s: float) -> Readings:
        with tempfile.TemporaryDirectory() as folder:
            settings, request, answers = (Path(folder) / name for name in ("pytest.ini", "request", "answers"))
            settings.write_text("[pytest]\n")
            request.write_text(json.dumps([case.as_dict() for case in cases]))
            arguments = ["-m", "pytest", "-q", "-c", str(settings), "--noconftest", "--import-mode=importlib"]
            arguments += ["-p", "pytest_benchmark.plugin", "-p", "no:cacheprovider", *_OPTIONS]
            arguments += [f"--benchmark-max-time={share_s}", str(_CASES)]
            # Nothing is loaded but the one plugin: the time of others' start would be lost to it.
            env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "", "PYTEST_PLUGINS": ""}
            child(arguments, env={**env, "BENCH_REQUEST": str(request), "BENCH_ANSWERS": str(answers)})
            measured = [json.loads(line) for line in answers.read_text().splitlines()]
        return {
            statistic: {case: of_case[statistic] for case, of_case in zip(cases, measured, strict=True)}
            for statistic in ("min", "median")
        }
