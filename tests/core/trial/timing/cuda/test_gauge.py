"""What NVML says of a GPU, from a library that the test makes up."""

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.core.trial.nvml import NvmlGauge, addresses

UUID = "01234567-89ab-cdef-0123-456789abcdef"
FACTS = {
    "sm_clock_mhz",
    "sm_clock_max_mhz",
    "memory_clock_mhz",
    "power_w",
    "temperature_c",
    "throttle_reasons",
    "gpu_processes",
    "gpu_disturbed",
    "nvml_note",
}


class NVMLError(Exception):
    pass


def refuse(*arguments: Any) -> Any:
    raise NVMLError("Not Supported")


def in_turn(*values: Any) -> Callable[..., Any]:
    """A function that gives these values one after the other."""
    rest = iter(values)
    return lambda *arguments: next(rest)


def library(**functions: Any) -> SimpleNamespace:
    """An NVML with two GPUs in it, ours the one with the UUID; `functions` replaces some of it."""

    def by_uuid(uuid: str) -> str:
        return "ours" if uuid == f"GPU-{UUID}" else refuse()

    def clock(handle: str, kind: str) -> int:
        assert handle == "ours"
        return {"sm": 1980, "memory": 3201}[kind]

    parts = {
        "NVMLError": NVMLError,
        "NVML_CLOCK_SM": "sm",
        "NVML_CLOCK_MEM": "memory",
        "NVML_TEMPERATURE_GPU": "die",
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": by_uuid,
        "nvmlDeviceGetHandleByPciBusId": refuse,
        "nvmlDeviceGetClockInfo": clock,
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: 1980,
        "nvmlDeviceGetPowerUsage": lambda handle: 700_000,
        "nvmlDeviceGetTemperature": lambda handle, sensor: 60,
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0,
        "nvmlDeviceGetComputeRunningProcesses": lambda handle: [SimpleNamespace(pid=1)],
        "nvmlDeviceGetGraphicsRunningProcesses": lambda handle: [],
    }
    parts |= functions
    return SimpleNamespace(**{name: part for name, part in parts.items() if part is not None})


def facts(readings: int = 1, where: Any = (("nvmlDeviceGetHandleByUUID", f"GPU-{UUID}"),), **functions: Any) -> Any:
    gauge = NvmlGauge(where, library(**functions))
    for _ in range(readings):
        gauge.read()
    return gauge.facts()


def test_all_is_told_in_the_units_that_the_names_say() -> None:
    assert facts() == {
        "sm_clock_mhz": 1980,
        "sm_clock_max_mhz": 1980,
        "memory_clock_mhz": 3201,
        "power_w": 700.0,
        "temperature_c": 60,
        "throttle_reasons": [],
        "gpu_processes": 0,
        "gpu_disturbed": False,
        "nvml_note": None,
    }


def test_a_driver_that_does_not_tell_its_version_is_a_note_and_no_error() -> None:
    where = [("nvmlDeviceGetHandleByUUID", f"GPU-{UUID}")]
    known = NvmlGauge(where, library(nvmlSystemGetDriverVersion=lambda: "570.86"))
    silent = NvmlGauge(where, library(nvmlSystemGetDriverVersion=refuse))
    assert [gauge.ask("nvmlSystemGetDriverVersion", of_gpu=False) for gauge in (known, silent)] == ["570.86", None]
    assert "nvmlSystemGetDriverVersion" in silent.facts()["nvml_note"]


def test_of_several_readings_clock_and_power_are_medians_heat_is_the_highest_and_every_reason_counts() -> None:
    seen = facts(
        3,
        nvmlDeviceGetPowerUsage=in_turn(100_000, 700_000, 690_000),
        nvmlDeviceGetTemperature=in_turn(50, 70, 60),
        nvmlDeviceGetCurrentClocksEventReasons=in_turn(0x4, 0, 0x1 | 0x20),
    )
    assert seen["power_w"] == 690.0
    assert seen["temperature_c"] == 70
    assert seen["throttle_reasons"] == ["software power cap", "software thermal slowdown"]


def test_the_gpu_is_found_by_its_uuid_whatever_its_number() -> None:
    found = addresses(SimpleNamespace(uuid=UUID))
    assert found[0] == ("nvmlDeviceGetHandleByUUID", f"GPU-{UUID}")
    assert addresses(SimpleNamespace(uuid=f"GPU-{UUID}")) == found


def test_where_its_uuid_is_unknown_it_is_found_by_its_place_on_the_bus() -> None:
    found = addresses(SimpleNamespace(uuid="other", pci_domain_id=0, pci_bus_id=0x1B, pci_device_id=0))
    assert ("nvmlDeviceGetHandleByPciBusId", "00000000:1b:00.0") in found
    assert facts(where=found, nvmlDeviceGetHandleByPciBusId=lambda where: "ours")["sm_clock_mhz"] == 1980


@pytest.mark.parametrize("lost", [None, refuse])
def test_older_drivers_and_bindings_have_the_reasons_under_another_name(lost: Any) -> None:
    seen = facts(
        3,
        nvmlDeviceGetCurrentClocksEventReasons=lost,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda handle: 0x8,
    )
    assert seen["throttle_reasons"] == ["hardware slowdown"]
    assert seen["nvml_note"] is None


def test_other_processes_are_counted_this_one_is_not() -> None:
    other, own = SimpleNamespace(pid=1), SimpleNamespace(pid=2)
    assert facts(nvmlDeviceGetComputeRunningProcesses=lambda handle: [own, other])["gpu_processes"] == 1
    twice = {"nvmlDeviceGetGraphicsRunningProcesses": lambda handle: [own]}
    assert facts(nvmlDeviceGetComputeRunningProcesses=lambda handle: [own], **twice)["gpu_processes"] == 0


def test_what_a_gpu_does_not_tell_is_none_and_noted_and_the_rest_is_told() -> None:
    seen = facts(2, nvmlDeviceGetPowerUsage=refuse)
    assert seen["power_w"] is None
    assert seen["nvml_note"] == "nvmlDeviceGetPowerUsage: Not Supported"
    assert seen["sm_clock_mhz"] == 1980


@pytest.mark.parametrize("part", ["nvmlInit", "nvmlDeviceGetHandleByUUID"])
def test_without_a_driver_or_the_gpu_in_it_all_is_none_with_the_reason(part: str) -> None:
    seen = facts(**{part: refuse})
    assert set(seen) == FACTS
    assert "Not Supported" in seen.pop("nvml_note")
    assert set(seen.values()) == {None}


def test_without_an_address_all_is_none_with_the_reason() -> None:
    assert "which GPU" in facts(where=())["nvml_note"]


def test_without_the_bindings_all_is_none_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    gauge = NvmlGauge([("nvmlDeviceGetHandleByUUID", "GPU-0")])
    gauge.read()
    seen = gauge.facts()
    assert "pynvml" in seen.pop("nvml_note")
    assert set(seen.values()) == {None}


def test_the_real_bindings_have_every_name_that_is_asked_for() -> None:
    import pynvml

    assert all(hasattr(pynvml, name) for name in vars(library()))


@pytest.mark.parametrize(
    ("bits", "computing", "disturbed"),
    [
        (0x1, 1, False),  # idle, and this process alone
        (0x4 | 0x2, 1, False),  # its usual power, and a clock rate that the user has chosen
        (0x20, 1, True),  # too hot
        (0x80, 1, True),  # power brake
        (0x4, 2, True),  # somebody else computes here
    ],
)
def test_heat_a_fault_or_another_process_disturbs_a_trial_and_its_usual_power_does_not(
    bits: int, computing: int, disturbed: bool
) -> None:
    processes = [SimpleNamespace(pid=pid) for pid in range(computing)]
    seen = facts(
        nvmlDeviceGetCurrentClocksEventReasons=lambda handle: bits,
        nvmlDeviceGetComputeRunningProcesses=lambda handle: processes,
        nvmlDeviceGetGraphicsRunningProcesses=lambda handle: [SimpleNamespace(pid=99)],
    )
    assert seen["gpu_disturbed"] is disturbed
