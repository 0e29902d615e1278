"""Advice on locking a GPU's clock rate, which is given unless trials show that it is locked."""

from pathlib import Path
from typing import Any

import pytest

from harness.core.config.machine import is_locked, lock_advice
from harness.core.model.gpus import borrowed_because

H100 = {"sm_clock_max_mhz": 1980, "application_sm_clock_mhz": 1980, "default_sm_clock_mhz": 1980}


@pytest.mark.parametrize(
    ("state", "command"),
    [
        (H100, "'sudo nvidia-smi -lgc 1485'."),  # the application clock is the highest rate
        ({**H100, "default_sm_clock_mhz": 1590}, "'sudo nvidia-smi -lgc 1590'."),
        ({**H100, "application_sm_clock_mhz": 1500}, "'sudo nvidia-smi -lgc 1500'."),
        ({"sm_clock_max_mhz": 1410}, "'sudo nvidia-smi -lgc 1050'."),
    ],
)
def test_a_clock_that_is_not_known_to_be_locked_gets_the_command_at_its_base_rate(
    state: dict[str, Any], command: str
) -> None:
    advice = lock_advice(state)
    assert command in advice
    assert "unless you have done so" in advice
    assert "'sudo nvidia-smi -rgc'." in advice
    assert advice.endswith("On a machine that others use too, leave the clock rate alone.")


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


def test_on_a_machine_that_may_be_anothers_no_command_is_given() -> None:
    state = {**H100, "borrowed": "a container"}
    advice = lock_advice(state, [1980, 1755])
    assert advice == (
        "The GPU's clock rate is not locked, and the machine may not be yours (a container): compare layers within one "
        "run, or in cycles (time_s · sm_clock_mhz)."
    )
    assert lock_advice(state, [1485, 1485]) is None


def test_containers_batch_jobs_and_virtual_machines_are_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("KUBERNETES_SERVICE_HOST", "SLURM_JOB_ID", "PBS_JOBID"):
        monkeypatch.delenv(name, raising=False)
    assert borrowed_because(tmp_path) is None
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert borrowed_because(tmp_path) == "a batch job"
    (tmp_path / ".dockerenv").touch()
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text("flags\t\t: fpu hypervisor")
    assert borrowed_because(tmp_path) == "a batch job, a container, a virtual machine"


def test_without_a_gpu_nothing_is_said() -> None:
    assert lock_advice({}) is None


def test_without_nvml_the_highest_rate_is_unknown() -> None:
    advice = lock_advice({"sm_clock_max_mhz": None})
    assert advice is not None
    assert advice.startswith("The GPU's clock rate is not locked, unless you did so: 'sudo nvidia-smi -lgc MHZ'.")
    assert not is_locked({}, [1485])
