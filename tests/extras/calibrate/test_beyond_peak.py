"""A layer that is faster than any machine, with a calibration and without one."""

import json
import platform
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import torch
from extras.calibrate.conftest import GOOD

from harness.cli.commands import main
from harness.core.config.machine import cpu_model
from harness.extras.calibrate.record import PATH, save
from harness.study.report import report_data

IMPOSSIBLE = "planted_kernels:DeclaresMoreThanAnyMachineDoes"
SWEEP = ["sweep", f"impl={IMPOSSIBLE},rnn.torch", "seq_len=16", "d_model=16", "num_heads=1", "threads=1", "out=run"]
SWEEP += [f"precision.{one}" for one in ("trial_s=0.01", "min_rounds=2", "max_rounds=2", "patience_s=0.1")]
REASON = "it takes less time than its FLOPs at the measured peak"
UNCHECKED = "Impossibly short times are not looked for: this run has no calibration."


def shown(*command: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, str, str, list[str]]:
    """The screen with single spaces, report.md, report.html, and why times of the impossible layer are suspect."""
    assert main([*command, "--no-plots"]) == 0
    screen = " ".join(capsys.readouterr().out.split())
    report, page = (Path("run", name).read_text(encoding="utf-8") for name in ("report.md", "report.html"))
    table = pd.read_csv("run/summary.csv")
    return screen, report.replace("\\", ""), page, table[table.impl == IMPOSSIBLE].suspect.dropna().tolist()


def test_a_time_below_the_peak_is_suspect_with_a_calibration_and_a_line_says_so_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report_data, "_MOST_LINES", 99)  # of a busy machine there is more to say
    here = {"host": platform.node(), "cpu_model": cpu_model(), "torch_version": torch.__version__}
    save(replace(GOOD, **here, threads=1), PATH)
    screen, report, page, suspect = shown(*SWEEP, capsys=capsys)
    assert suspect == [REASON]
    assert " suspect " in screen  # in place of the ratio to the fastest
    assert f"1 case suspect ({IMPOSSIBLE} n=16 d=16 h=1: {REASON})" in screen
    assert f"suspect, without a rank: {IMPOSSIBLE} n=16 d=16 h=1: {REASON}" in report
    row = next(line for line in report.splitlines() if line.startswith(f"| {IMPOSSIBLE} "))
    assert " | suspect | " in row  # in place of the ratio to the fastest
    assert not any(UNCHECKED in text for text in (screen, report, page))

    machine = json.loads(Path("run/machine.json").read_text())
    Path("run/machine.json").write_text(json.dumps({**machine, "calibration": None}))
    screen, report, page, suspect = shown("report", "run", capsys=capsys)
    assert suspect == []
    assert all(text.count(UNCHECKED) == 1 for text in (screen, report, page))
