"""What the registry's layers take on the CPU, by pytest-benchmark's own fixture: a test a layer and a length.

    python -m pytest benchmarks/bench_registry.py --benchmark-json=layers.json
    python -m harness report layers.json -o layers

The axes stand in `extra_info`, and beside them what is exact, from a trial of its own. Which layers and sizes is said
by the environment, lists by commas, layers by globs: HARNESS_BENCH_IMPLS (all but the compiled ones, which take seconds
each), HARNESS_BENCH_SEQ_LENS, and HARNESS_BENCH_CASE for all other axes, such as "d_model=128 num_heads=8 mode=train".
How long each takes is said by pytest-benchmark's options, such as --benchmark-max-time=0.1.
"""

import os
from collections.abc import Iterator

import pytest
import torch
from ladder import case_of

from benchmarks.chosen import impls, lengths, others
from harness.core.results.row import FACTS, facts_of_row
from harness.core.run.executor import Executor
from harness.core.trial.workload import build
from impls.registry import IMPLS

AXES = others(os.environ)


@pytest.fixture
def as_before() -> Iterator[None]:
    """A case says how many threads there are and whether there are gradients, for the whole process."""
    threads, gradients = torch.get_num_threads(), torch.is_grad_enabled()
    yield
    torch.set_num_threads(threads)
    torch.set_grad_enabled(gradients)


@pytest.mark.usefixtures("as_before")
@pytest.mark.parametrize("seq_len", lengths(os.environ))
@pytest.mark.parametrize("impl", impls(os.environ))
def test_layer(benchmark, runner: Executor, impl: str, seq_len: int) -> None:
    more = {axis: value for axis, value in AXES.items() if axis not in ("d_model", "num_heads")}
    case = case_of(impl, seq_len, AXES["d_model"], AXES["num_heads"], **more)
    outcome = runner.run("facts", case)
    if outcome.status == "unsupported":
        pytest.skip(outcome.reason or "")
    assert outcome.status == "ok", outcome.reason
    row = outcome.values
    exact = dict(zip(FACTS, facts_of_row(row) or (), strict=False))
    known = {name: fact for name, fact in exact.items() if fact is not None}
    benchmark.extra_info |= {**case.as_dict(), "family": IMPLS[impl].family, **known}
    call = build(case, 0).call
    call()  # what the first call alone pays for is no part of a round
    benchmark(call)
