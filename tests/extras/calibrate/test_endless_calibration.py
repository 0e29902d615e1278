"""A calibration's file that is huge, or no file at all."""

from pathlib import Path

import pytest
from core.faults.test_endless_files import FAULTS, IRREGULAR, TOO_LARGE, run, whole  # noqa: F401  # fixtures

from harness.core.model.errors import UsageError
from harness.extras.calibrate.record import load_calibration


@pytest.mark.parametrize("fault", FAULTS)
def test_a_calibration_is_refused_in_one_line(fault: str, run: Path) -> None:  # noqa: F811
    FAULTS[fault](Path("calibration.json"))
    with pytest.raises(UsageError, match=TOO_LARGE if fault == "huge" else IRREGULAR):
        load_calibration(Path("calibration.json"))
