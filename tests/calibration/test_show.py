"""What the terminal shows of a calibration."""

from collections.abc import Callable

from calibration.conftest import GOOD
from screens.text_file import printed, terminal, titled
from syrupy import SnapshotAssertion

from harness.calibration.record import show_calibration


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
