"""Where time may be taken."""

from types import SimpleNamespace
from typing import Any

import pytest

from harness.extras.pytest_plugin.plugin import why_timing_is_refused


def config(workers: int = 0, **options: bool) -> Any:
    given = SimpleNamespace(getoption=lambda name, default: options.get(name, default))
    if workers:
        given.workerinput = {"workercount": workers}
    return given


@pytest.mark.parametrize(
    "alone",
    [
        config(),  # neither pytest-xdist nor pytest-benchmark
        config(workers=1),
        config(benchmark_skip=True, benchmark_only=True),  # the latter overrides the former
        config(benchmark_disable=True, benchmark_enable=True),
    ],
)
def test_where_nobody_else_works_and_nobody_forbids_it_time_is_taken(alone: Any) -> None:
    assert why_timing_is_refused(alone) is None


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        (config(workers=2), "run this test with -n 0"),
        (config(benchmark_skip=True), "--benchmark-skip was used"),
        (config(benchmark_disable=True), "--benchmark-disable was used"),
    ],
)
def test_elsewhere_it_is_not_and_why_is_said(where: Any, reason: str) -> None:
    assert reason in str(why_timing_is_refused(where))
