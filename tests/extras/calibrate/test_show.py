"""What the terminal shows of a calibration."""

from collections.abc import Callable

from extras.calibrate.conftest import GOOD
from screens.text_file import printed, terminal, titled
from syrupy import SnapshotAssertion

from harness.extras.calibrate.record import show_calibration


def test_a_noise_floor_that_was_not_measured_is_no_number(spoilt: Callable) -> None:
    console = terminal()
    show_calibration(spoilt(noise=None), console)
    shown = " ".join(printed(console).replace("│", "").split())
    assert "noise floor not measured ├" in shown
    assert "noise floor: not measured ('python -m harness calibrate device=cpu threads=2' measures it)" in shown
    assert "150 GFLOP/s (product of 2048²)" in shown
    assert "pairs of equals" not in shown


def test_numbers_have_units_and_the_verdict_comes_before_its_advice(
    spoilt: Callable, snapshot: SnapshotAssertion
) -> None:
    unknown = ("governors", "turbo", "clocksource", "huge_pages", "steal_share", "usable_cores")
    screens = {}
    for title, calibration in {
        "fit": GOOD,
        "usable with care": spoilt(governors=("powersave",), turbo=True),
        "not fit": spoilt(floor=0.3, failures=("peak of float16: oom: no memory",)),
        "nothing can be read": spoilt(**dict.fromkeys(unknown)),
    }.items():
        console = terminal()
        show_calibration(calibration, console)
        screens[title] = printed(console)
    assert titled(screens) == snapshot
