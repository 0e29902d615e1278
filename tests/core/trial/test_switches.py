"""A layer's code may change switches of the whole process. No row says what did not run."""

from pathlib import Path

import pytest
import torch

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor

MODULE = """
import torch
from torch import nn

{at_import}

class Layer(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.proj = nn.Linear(d_model, d_model)
        {in_constructor}

    def forward(self, x):
        if {checks}:
            self.check()
        {in_call}
        return self.proj(x)

    def check(self):
        assert torch.get_num_threads() == {threads}
        assert torch.get_default_dtype() == torch.float32
        assert torch.get_float32_matmul_precision() == "highest"
        assert not torch.are_deterministic_algorithms_enabled()
        assert torch.backends.mkldnn.enabled
        assert torch.tensor(1e-40) * 1 > 0
"""
CHANGES = {
    "torch.set_num_threads": "torch.set_num_threads(2)",
    "torch.set_default_dtype": "torch.set_default_dtype(torch.float64)",
    "torch.set_float32_matmul_precision": "torch.set_float32_matmul_precision('medium')",
    "torch.set_flush_denormal": "torch.set_flush_denormal(True)",
    "torch.backends.mkldnn.enabled": "torch.backends.mkldnn.enabled = False",
    "torch.use_deterministic_algorithms": "torch.use_deterministic_algorithms(True)",
}
# Since torch 2.9, products have settings for each library and kind beside the one for all.
NEWER = [
    "torch.backends.fp32_precision = 'tf32'",
    "torch.backends.cuda.matmul.fp32_precision = 'tf32'",
    "torch.backends.mkldnn.matmul.fp32_precision = 'bf16'",
    "torch.backends.mkldnn.conv.fp32_precision = 'bf16'",
]


def case_of(directory: Path, threads: int = 1, **code: str) -> Case:
    file = directory / "layers.py"
    places = {"at_import": "", "in_constructor": "", "in_call": ""} | code
    file.write_text(MODULE.format(threads=threads, checks=not places["in_call"], **places))
    return Case(f"{file}:Layer", 24, 8, 1, threads=threads)


@pytest.mark.parametrize("switch", CHANGES)
@pytest.mark.parametrize(("purpose", "place"), [("time", "at_import"), ("verify", "in_constructor")])
def test_a_switch_that_a_module_or_constructor_changes_is_set_back(
    runner: Executor, tmp_path: Path, switch: str, purpose: str, place: str
) -> None:
    outcome = runner.run(purpose, case_of(tmp_path, **{place: CHANGES[switch]}))
    assert (outcome.status, outcome.reason) == ("ok", None)


@pytest.mark.skipif(not hasattr(torch.backends, "fp32_precision"), reason="needs torch 2.9")
@pytest.mark.parametrize("setting", NEWER)
def test_a_newer_setting_of_products_is_set_back(runner: Executor, tmp_path: Path, setting: str) -> None:
    exact = "assert torch.backends.mkldnn.conv.fp32_precision == torch.backends.cuda.matmul.fp32_precision == 'ieee'"
    code = {"at_import": setting, "in_constructor": f"self.check = lambda: exec({exact!r}, dict(torch=torch))"}
    outcome = runner.run("verify", case_of(tmp_path, **code))
    assert (outcome.status, outcome.reason) == ("ok", None)


def test_a_module_that_sets_one_thread_runs_with_those_of_its_case(runner: Executor, tmp_path: Path) -> None:
    outcome = runner.run("time", case_of(tmp_path, threads=2, at_import="torch.set_num_threads(1)"))
    assert (outcome.status, outcome.reason) == ("ok", None)


@pytest.mark.parametrize("switch", CHANGES)
@pytest.mark.parametrize("purpose", ["verify", "time"])
def test_a_call_that_changes_a_switch_is_unsupported(
    runner: Executor, tmp_path: Path, switch: str, purpose: str
) -> None:
    outcome = runner.run(purpose, case_of(tmp_path, in_call=CHANGES[switch]))
    assert outcome.status == "unsupported"
    assert outcome.reason == f"its calls change {switch} for the whole process: leave that to the harness"


def test_a_change_in_the_first_call_alone_is_seen(runner: Executor, tmp_path: Path) -> None:
    code = "if not hasattr(torch, 'has_changed'): torch.has_changed = torch.set_num_threads(2)"
    outcome = runner.run("time", case_of(tmp_path, in_call=code))
    assert outcome.status == "unsupported"
