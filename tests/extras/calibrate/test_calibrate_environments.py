"""A calibration of one environment alone."""

from pathlib import Path

import pytest
from cli.test_environments import TINY, environments, here  # noqa: F401  # fixtures

from harness.cli.commands import main


def test_a_calibration_cannot_vary_the_environment(here: Path, capsys: pytest.CaptureFixture) -> None:  # noqa: F811
    assert main(["calibrate", "env=a,b", "impl=worked:Layer", "seq_len=16", *TINY[:3]]) == 2
    assert "env takes one value here" in capsys.readouterr().err
