"""A user's benchmarks, as pytest-benchmark wants them written: a test a case. Run by `with_pytest_benchmark.py`."""

import json
import os
from pathlib import Path

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.trial.workload import build

CASES = [Case.from_dict(fields) for fields in json.loads(Path(os.environ["BENCH_REQUEST"]).read_text())]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_case(benchmark, case: Case) -> None:
    benchmark(build(case, 0).call)
    of_case = benchmark.stats.stats
    with Path(os.environ["BENCH_ANSWERS"]).open("a") as answers:
        print(json.dumps({"min": of_case.min, "median": of_case.median}), file=answers)
