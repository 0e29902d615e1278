"""The advice about each kind of machine."""

import pytest

from harness.calibration.machine_state import Busy
from harness.calibration.record import advice_for, percent, verdict


def test_a_machine_without_fault_is_fit_and_gets_no_advice(calibration) -> None:
    assert advice_for(calibration) == []
    assert verdict([]) == "fit"


@pytest.mark.parametrize(
    ("fault", "word", "said"),
    [
        ({"floor": 0.061}, "usable with care", ("6.1 %", "precision=quick", "Try precision=standard")),
        ({"floor": 0.30}, "not fit", ("30 %",)),
        ({"disturbed_share": 0.4}, "usable with care", ("40 % of the trials", "two speeds")),
        ({"steal_share": 0.02}, "usable with care", ("2 %", "steal", "within one run")),
        ({"steal_share": 0.2}, "not fit", ("20 %",)),
        ({"other_share": 0.10}, "usable with care", ("10 %", "none of them to be seen from here")),
        ({"other_share": 0.5, "busiest": (Busy(7, "cc1", 0.8),)}, "not fit", ("cc1 (pid 7", "80 % of a core")),
        ({"swapped_bytes": 2**24}, "usable with care", ("16 MiB", "swapoff")),
        ({"cpu_quota": 1.5}, "not fit", ("threads=2", "1.5 CPUs", "Use threads=1")),
        ({"threads": 8}, "not fit", ("4 CPUs only", "threads=4 at most")),
        ({"threads": 3}, "usable with care", ("2 physical cores", "Use threads=2")),
        ({"governors": ("powersave",)}, "usable with care", ("powersave", "cpupower frequency-set -g performance")),
        ({"turbo": True}, "fit", ("Turbo is on", "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost")),
        ({"turbo": True, "scaling_driver": "intel_pstate"}, "fit", ("intel_pstate/no_turbo",)),
        ({"on_battery": True}, "usable with care", ("battery",)),
        ({"clock_s": 1.2e-6}, "fit", ("1200 ns", "from tsc")),
        ({"huge_pages": "always"}, "fit", ("echo madvise",)),
        (
            {"bandwidth": {"cache_bytes": 2**25, "buffer_bytes": 2**25}},
            "fit",
            ("part of the bandwidth is the cache's",),
        ),
        ({"failures": ("peak of float16: oom: no memory",)}, "usable with care", ("Not measured: peak of float16",)),
    ],
)
def test_each_fault_is_told_with_what_to_do(spoilt, fault: dict, word: str, said: tuple[str, ...]) -> None:
    advice = advice_for(spoilt(**fault))
    assert len(advice) == 1
    assert verdict(advice) == word
    assert all(part in advice[0].text for part in said)


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
    ],
)
def test_what_is_harmless_or_unknown_is_no_fault(spoilt, harmless: dict) -> None:
    assert advice_for(spoilt(**harmless)) == []


def test_the_weightiest_comes_first_and_decides(spoilt) -> None:
    advice = advice_for(spoilt(turbo=True, governors=("ondemand",), steal_share=0.3))
    assert [one.level for one in advice] == ["unfit", "care", "note"]
    assert verdict(advice) == "not fit"


def test_the_best_precision_is_not_sent_to_a_better_one(spoilt) -> None:
    (one,) = advice_for(spoilt(floor=0.08, precision="strict"))
    assert "Try" not in one.text


def test_shares_are_told_in_per_cent() -> None:
    told = {0: "0 %", 0.0004: "0.04 %", 0.0321: "3.2 %", 0.0999: "10 %", 0.05: "5 %", 0.995: "100 %", 2.3: "230 %"}
    assert {share: percent(share) for share in told} == told
