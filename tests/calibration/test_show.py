"""What the terminal shows."""

import io

import pytest
from rich.console import Console

from harness.calibration.record import show_calibration


def text_of(calibration) -> str:
    console = Console(file=io.StringIO(), width=100)
    show_calibration(calibration, console)
    return " ".join(console.file.getvalue().replace("│", " ").split())


def test_numbers_come_with_their_units(calibration) -> None:
    text = text_of(calibration)
    for part in (
        "noise floor, precision=quick 2.1 % (1.5 % to 3.4 %)",
        "rnn.torch n=64 d=32 h=1: 3.1 % apart at most",
        "31.0 ns (tsc)",
        "peak, float32 150 GFLOP/s",
        "triad 25.0 GB/s (arrays of 128 MiB)",
        "Fit to measure on.",
    ):
        assert part in text


@pytest.mark.parametrize("name", ["governors", "turbo", "clocksource", "huge_pages", "steal_share", "usable_cores"])
def test_what_is_not_known_is_said_to_be_not_readable(spoilt, name: str) -> None:
    assert "not readable here" not in text_of(spoilt())
    assert "not readable here" in text_of(spoilt(**{name: None}))


def test_advice_follows_the_verdict(spoilt) -> None:
    text = text_of(spoilt(governors=("powersave",)))
    assert text.index("Usable with care.") < text.index("- care: The frequency governor is powersave")
