"""Throttle reasons in words."""

import pynvml
import pytest

from harness.core.trial.nvml import in_words


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (pynvml.nvmlClocksEventReasonApplicationsClocksSetting, "application clocks setting"),
        (pynvml.nvmlClocksEventReasonSwPowerCap, "software power cap"),
        (pynvml.nvmlClocksEventReasonHwSlowdown, "hardware slowdown"),
        (pynvml.nvmlClocksEventReasonSyncBoost, "sync boost"),
        (pynvml.nvmlClocksEventReasonSwThermalSlowdown, "software thermal slowdown"),
        (pynvml.nvmlClocksEventReasonHwThermalSlowdown, "hardware thermal slowdown"),
        (pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown, "hardware power brake"),
        (pynvml.nvmlClocksEventReasonDisplayClockSetting, "display clock setting"),
    ],
)
def test_each_of_nvmls_reasons_has_its_words(reason: int, words: str) -> None:
    assert in_words(reason) == [words]


def test_several_reasons_are_all_named() -> None:
    assert in_words(0x4 | 0x20) == ["software power cap", "software thermal slowdown"]


def test_idleness_is_no_reason() -> None:
    assert in_words(pynvml.nvmlClocksEventReasonGpuIdle) == in_words(0) == []


def test_a_reason_unknown_here_is_named_by_its_bit() -> None:
    assert in_words(0x4 | 0x8000) == ["software power cap", "reason 0x8000"]
