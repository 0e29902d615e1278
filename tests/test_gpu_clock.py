"""Advice on locking a GPU's clock rate, which is given unless trials show that it is locked."""

from typing import Any

import pytest

from harness.machine import is_locked, lock_advice

H100 = {"sm_clock_max_mhz": 1980, "application_sm_clock_mhz": 1980, "default_sm_clock_mhz": 1980}


@pytest.mark.parametrize(
    ("state", "command"),
    [
        (H100, "'sudo nvidia-smi -lgc 1485'."),  # the application clock is the highest rate
        ({**H100, "default_sm_clock_mhz": 1590}, "'sudo nvidia-smi -lgc 1590'."),
        ({**H100, "application_sm_clock_mhz": 1500}, "'sudo nvidia-smi -lgc 1500'."),
        ({"sm_clock_max_mhz": 1410}, "'sudo nvidia-smi -lgc 1050'."),
        ({"sm_clock_max_mhz": None}, "'sudo nvidia-smi -lgc MHZ', where MHZ is three quarters of the highest rate"),
    ],
)
def test_a_clock_that_is_not_known_to_be_locked_gets_the_command_at_its_base_rate(
    state: dict[str, Any], command: str
) -> None:
    advice = lock_advice(state)
    assert command in advice
    assert "unless you have done so" in advice
    assert "'sudo nvidia-smi -rgc'." in advice


def test_the_advice_says_what_it_costs_and_what_the_trials_saw() -> None:
    advice = lock_advice(H100, [1980, 1755, 1830])
    assert "which makes compute-bound layers up to 33 % slower" in advice
    assert "is not locked: it changes up to 1980 MHz" in advice
    assert "It was 1755 to 1980 MHz in the trials." in advice


@pytest.mark.parametrize(
    ("rates", "locked"),
    [
        ((1485, 1485, 1480), True),
        ((1980, 1980), False),  # at rest, at the highest rate
        ((1485, 1700), False),  # under a power cap
        ((), False),
    ],
)
def test_a_steady_clock_below_the_highest_rate_is_locked(rates: tuple[int, ...], locked: bool) -> None:
    assert is_locked(H100, rates) is locked
    assert (lock_advice(H100, rates) is None) is locked


def test_without_a_gpu_nothing_is_said() -> None:
    assert lock_advice({}) is None
    assert not is_locked({}, [1485])
