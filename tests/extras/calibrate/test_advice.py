"""The advice about each kind of machine."""

import pytest
from screens.text_file import titled
from syrupy import SnapshotAssertion

from harness.extras.calibrate.machine_state import Busy
from harness.extras.calibrate.record import advice_for, gpu_advice, verdict


def test_a_machine_without_fault_is_fit_and_gets_no_advice(calibration) -> None:
    assert advice_for(calibration) == []
    assert verdict([]) == "fit"


LOCKED = {"persistence_mode": 1, "sm_clock_max_mhz": 1980}
FAULTS = {
    "usable with care": [
        *({"floor": 0.061}, {"disturbed_share": 0.4}, {"steal_share": 0.02}, {"other_share": 0.10}, {"threads": 3}),
        *({"noise": None}, {"swapped_bytes": 2**24}, {"governors": ("powersave",)}, {"on_battery": True}),
        {"gpu_state": {**LOCKED, "persistence_mode": 0}, "sm_clock_mhz": (1485, 1485)},
        *({"failures": ("peak of float16: oom: no memory",)}, {"floor": 0.08, "precision": "strict"}),
    ],
    "not fit": [
        *({"floor": 0.30}, {"steal_share": 0.2}, {"other_share": 0.5, "busiest": (Busy(7, "cc1", 0.8),)}),
        *({"cpu_quota": 1.5}, {"threads": 8}),
    ],
    "fit": [
        *({"turbo": True}, {"turbo": True, "scaling_driver": "intel_pstate"}, {"clock_s": 1.2e-6}),
        {"gpu_state": {"persistence_mode": 1, "sm_clock_max_mhz": 1980, "application_sm_clock_mhz": 1980}},
        {"gpu_state": LOCKED, "sm_clock_mhz": (1755.0, 1980.0)},
        *({"huge_pages": "always"}, {"bandwidth": {"cache_bytes": 2**25, "buffer_bytes": 2**25}}),
    ],
}


@pytest.mark.parametrize(("word", "fault"), [(word, fault) for word, faults in FAULTS.items() for fault in faults])
def test_each_fault_decides_whether_the_machine_is_fit(spoilt, word: str, fault: dict) -> None:
    advice = advice_for(spoilt(**fault))
    assert len(advice) == 1
    assert verdict(advice) == word


def test_each_fault_is_told_with_what_to_do(spoilt, snapshot: SnapshotAssertion) -> None:
    told = {str(fault): advice_for(spoilt(**fault))[0].text for faults in FAULTS.values() for fault in faults}
    assert titled(told) == snapshot


@pytest.mark.parametrize(
    "harmless",
    [
        {"floor": 0.05},
        {"steal_share": None},
        {"steal_share": 0.01},
        {"cpu_quota": 2.0},
        {"usable_cores": None, "threads": 4},
        {"governors": None, "turbo": None, "smt": None, "on_battery": None, "huge_pages": None},
        {"disturbed_share": None},
        {"bandwidth": {}},
        {"swapped_bytes": 4096},
        {"gpu_state": LOCKED, "sm_clock_mhz": (1485.0, 1485.0)},
    ],
)
def test_what_is_harmless_or_unknown_is_no_fault(spoilt, harmless: dict) -> None:
    assert advice_for(spoilt(**harmless)) == []


def test_the_weightiest_comes_first_and_decides(spoilt) -> None:
    advice = advice_for(spoilt(turbo=True, governors=("ondemand",), steal_share=0.3))
    assert [one.level for one in advice] == ["unfit", "care", "note"]
    assert verdict(advice) == "not fit"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"persistence_mode": 0}, ["sudo nvidia-smi -pm 1", "sudo nvidia-smi -lgc MHZ"]),
        ({"sm_clock_max_mhz": 1980, "application_sm_clock_mhz": 1500, "persistence_mode": 1}, ["-lgc 1500"]),
        ({"sm_clock_max_mhz": 1980, "application_sm_clock_mhz": None}, ["-lgc 1485"]),
        ({"sm_clock_max_mhz": 1980, "application_sm_clock_mhz": 1980}, ["-lgc 1485"]),
        ({}, []),
    ],
)
def test_advice_on_a_gpu_has_the_command_to_type(state: dict, said: list[str]) -> None:
    given = [advice.text for advice in gpu_advice(state)]
    assert len(given) == len(said)
    assert all(part in text for part, text in zip(said, given, strict=True))
    without = [advice.text for advice in gpu_advice(state and {**state, "borrowed": "a container"})]
    assert len(without) == len(given)
    assert "sudo" not in " ".join(without)
