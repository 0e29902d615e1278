"""Solutions of a problem that a program may write to look fast or right, and how each of them ends."""

from pathlib import Path
from typing import Any

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor

PROBLEM = Path(__file__).parent / "files" / "both.py"
SOLUTION = """
import os, threading, time, torch

class ModelNew(torch.nn.Module):
    def forward(self, x):
        {}
"""
LATE = """out = torch.zeros_like(x)
        def later():
            time.sleep(0.05)
            torch.cumsum(x, 1, out=out)
        threading.Thread(target=later).start()
        return out"""
LAZY = """return Lazy(x)

class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, x):
        lazy = torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype)
        lazy.x = x
        return lazy

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return function(*(one.x.cumsum(1) if isinstance(one, Lazy) else one for one in args), **(kwargs or {}))"""
KEPT_BY_ADDRESS = """self.kept = self.__dict__.get("kept", {})
        place = x.data_ptr(), x._version
        return self.kept[place] if place in self.kept else self.kept.setdefault(place, x.cumsum(1))"""
KEPT_BY_FIRST = """self.kept = self.__dict__.get("kept", {})
        first = float(x[0, 0, 0])
        return self.kept[first] if first in self.kept else self.kept.setdefault(first, x.cumsum(1))"""


def answer(purpose: str, forward: str, directory: Path, runner: Executor, before: str = "") -> Any:
    solution = directory / "solution.py"
    solution.write_text(before + SOLUTION.format(forward))
    impl = f"problem-file:{PROBLEM}+{solution}"
    return runner.run(purpose, Case(impl, seq_len=64, d_model=8, num_heads=1, batch_size=2))


@pytest.mark.parametrize(
    ("forward", "status", "said"),
    [
        ("return x.cumsum(1)", "ok", ""),
        ("return torch.zeros_like(x)", "incorrect", "output is off by 1.0e+00 of its norm"),
        ("return x.bfloat16().cumsum(1).to(x.dtype)", "incorrect", "output is off by"),
        (LATE, "incorrect", "output is off by"),
        (LAZY, "incorrect", "it returned a Lazy, a subclass of Tensor, which may compute its values later"),
        ("return self.__dict__.setdefault('kept', x.cumsum(1))", "incorrect", "does it keep anything of the first?"),
        (KEPT_BY_ADDRESS, "incorrect", "it returns the result of an earlier call"),
        (KEPT_BY_FIRST, "incorrect", "it returns the result of an earlier call"),
        ("os._exit(0)", "error", "its process ended with exit status 0 and without a result"),
        ("print('ok'); raise SystemExit", "error", "SystemExit"),
    ],
)
def test_a_solution_that_does_not_compute_its_output_in_the_call_is_found(
    forward: str, status: str, said: str, tmp_path: Path, runner: Executor
) -> None:
    outcome = answer("verify", forward, tmp_path, runner)
    assert outcome.status == status
    assert said in (outcome.reason or "")


def test_a_solution_that_knows_when_it_is_verified_is_found_at_the_timed_size(tmp_path: Path, runner: Executor) -> None:
    outcome = answer("facts", "return x.cumsum(1) if x.shape[1] < 64 else x", tmp_path, runner)
    assert (outcome.status, "at n = 64 (all tokens)" in outcome.reason) == ("incorrect", True)


@pytest.mark.parametrize(
    ("before", "forward"),
    [
        ("import time\ntime.perf_counter = time.monotonic = lambda: 0.0\n", "return x.cumsum(1)"),
        ("", "time.perf_counter = time.process_time = lambda: 0.0; return x.cumsum(1)"),
    ],
)
def test_a_replaced_clock_changes_no_time(before: str, forward: str, tmp_path: Path, runner: Executor) -> None:
    outcome = answer("time", forward, tmp_path, runner, before)
    assert outcome.ok
    assert min(outcome.values["samples_s"]) > 1e-6
