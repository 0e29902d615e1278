"""An export of a run with files that never end, block their reader or are far too large."""

import json
from pathlib import Path

import pytest
from core.faults import test_endless_files
from core.faults.test_endless_files import FAULTS, put_into

from harness.cli.commands import main

bounds, whole, run = test_endless_files.bounds, test_endless_files.whole, test_endless_files.run


@pytest.mark.parametrize("fault", FAULTS)
def test_what_a_run_can_do_without_is_left_out_of_an_export(fault: str, run: Path) -> None:
    put_into(run, fault)
    assert main(["export", "run", "--format=pytest-benchmark", "-o", "out.json"]) == 0
    assert json.loads(Path("out.json").read_text())["benchmarks"]
