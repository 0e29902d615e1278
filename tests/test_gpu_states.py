"""The state of the GPUs of a machine: which differences make times incomparable, and several jobs that record it."""

from pathlib import Path
from typing import Any

import pytest

from harness.core.config.compose import compose
from harness.core.config.machine import changed_gpu_settings, gpu_state_of, kind_of_machine, unlike, with_gpus_of
from harness.core.model.errors import UsageError
from harness.core.results import run_directory
from harness.core.run.output_directory import OutputDirectory

STATE = {"index": 0, "name": "H100", "driver": "570.86", "power_limit_w": 700.0, "ecc_mode": 1}
STATE |= {"application_sm_clock_mhz": 1980, "mig_mode": None, "persistence_mode": 1}


def machine(host: str = "n1", **states: dict[str, Any]) -> dict[str, Any]:
    """A machine with GPUs by UUID, each of which is STATE but for the given values."""
    torch = {"version": "2.13.0", "gpu": "H100", "gpu_states": {uuid: STATE | one for uuid, one in states.items()}}
    return {"host": host, "cpu": {"model": "a CPU", "usable": 2}, "torch": torch}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"driver": "575.1"}, "GPU driver 570.86 before and 575.1 now"),
        ({"power_limit_w": 500.0}, "GPU power limit 700 W before and 500 W now"),
    ],
)
def test_another_driver_or_power_limit_makes_another_machine(changed: dict[str, Any], said: str) -> None:
    assert unlike(machine(a={}), machine(a=changed)) == [said]
    assert unlike(machine(a={}), machine(a={})) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"ecc_mode": 0}, "GPU ECC mode 1 before and 0 now"),
        ({"application_sm_clock_mhz": 1500}, "GPU application clock 1980 MHz before and 1500 MHz now"),
        ({"persistence_mode": 0}, "GPU persistence mode 1 before and 0 now"),
    ],
)
def test_other_settings_of_a_gpu_are_noted(changed: dict[str, Any], said: str) -> None:
    assert unlike(machine(a={}), machine(a=changed)) == []
    assert changed_gpu_settings(machine(a={}), machine(a=changed)) == [said]


def test_the_kind_of_a_machine_has_the_drivers_and_power_limits_of_its_gpus() -> None:
    kinds = [kind_of_machine(machine(a={}, b={"power_limit_w": limit_w})) for limit_w in (700.0, 500.0)]
    assert kinds[0]["gpu_settings"] == "driver 570.86, power limit 700 W"
    assert kinds[1]["gpu_settings"] == "driver 570.86, power limit 700 W, power limit 500 W"
    assert "gpu_settings" not in kind_of_machine(machine())


def test_what_nvml_did_not_tell_is_no_difference() -> None:
    for before, now in ((None, 500.0), (500.0, None)):
        states = (machine(a={"power_limit_w": value}) for value in (before, now))
        assert unlike(*states) == []
    assert changed_gpu_settings(machine(a={}), machine(a={"mig_mode": 1})) == []


def test_each_gpu_is_compared_with_itself_and_a_new_one_with_all_that_there_were() -> None:
    before = machine(a={}, b={"power_limit_w": 500.0})
    assert unlike(before, machine(b={"power_limit_w": 500.0})) == []
    assert unlike(before, machine(c={"power_limit_w": 500.0})) == []
    assert unlike(before, machine(a={"power_limit_w": 500.0})) == [
        "GPU power limit of a 700 W before and 500 W now",
    ]
    assert unlike(before, machine(c={"power_limit_w": 300.0})) == [
        "GPU power limit of c 500 or 700 W before and 300 W now"
    ]


def test_a_damaged_state_is_no_state() -> None:
    for damaged in (3, {"a": 3}, {"a": {"driver": ["x"]}}):
        broken = machine()
        broken["torch"]["gpu_states"] = damaged
        assert isinstance(unlike(broken, machine(a={})), list)
        assert isinstance(unlike(machine(a={}), broken), list)


def test_only_the_gpus_of_the_cases_count() -> None:
    whole = machine(a={}, b={"index": 1, "power_limit_w": 500.0})
    assert list(with_gpus_of(whole, ["cuda:1", "cpu"])["torch"]["gpu_states"]) == ["b"]
    assert "gpu_states" not in with_gpus_of(whole, ["cpu"])["torch"]
    assert gpu_state_of(whole, "cuda:1")["power_limit_w"] == 500
    assert gpu_state_of(whole, "cuda")["power_limit_w"] == 700
    assert gpu_state_of(whole, "cpu") is None


def test_a_sweep_goes_on_with_other_settings_and_says_so_and_not_with_another_power_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = compose([f"out={tmp_path / 'run'}", "device=cuda"])
    run_directory.create(tmp_path / "run", config.record, machine(a={}))
    target = OutputDirectory.of(config)
    target.check_machine(machine(a={"ecc_mode": 0}))
    assert (
        "GPU ECC mode 1 before and 0 now: times may differ from those of the run. To start anew, give another out="
        in capsys.readouterr().err
    )
    with pytest.raises(UsageError, match=r"another machine \(GPU power limit 700 W before and 500 W now\)"):
        target.check_machine(machine(a={"power_limit_w": 500.0}))
