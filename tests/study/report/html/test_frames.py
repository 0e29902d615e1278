"""The axes of charts."""

import pytest

from harness.core.model import formatting
from harness.study.report import chart, figure_panels
from harness.study.report.chart import Axis


def texts(frame: Axis) -> list[str]:
    return [text for _, text in frame.ticks]


def test_times_have_round_ticks_with_units() -> None:
    frame = figure_panels.TIME.axis([2e-5, 0.2])
    assert texts(frame) == ["100 µs", "1 ms", "10 ms", "100 ms"]
    assert frame.range[0] < 2e-5 < 0.2 < frame.range[1]
    assert texts(figure_panels.TIME.axis([1e-4, 0.05])) == ["100 µs", "300 µs", "1 ms", "3 ms", "10 ms", "30 ms"]


@pytest.mark.parametrize("values", [[1.0], [0.9e-3, 1.1e-3], [7.3e-5], [6e-3, 7e-3], [1e-9, 1e3]])
def test_there_are_always_two_ticks_at_least_and_never_too_many(values: list[float]) -> None:
    for frame in (figure_panels.TIME.axis(values), figure_panels.MEMORY.axis([value * 1e6 for value in values])):
        assert 2 <= len(frame.ticks) <= 16
        assert all(frame.range[0] <= value <= frame.range[1] for value, _ in frame.ticks)


def test_bytes_are_in_powers_of_two() -> None:
    assert texts(figure_panels.MEMORY.axis([2**16, 2**24])) == ["64 KiB", "256 KiB", "1 MiB", "4 MiB", "16 MiB"]


def test_only_measured_sizes_are_named_and_the_largest_always() -> None:
    assert texts(chart.size_axis([64, 128, 128, 256])) == ["64", "128", "256"]
    many = chart.size_axis(range(64, 1664, 64))
    assert len(many.ticks) <= 8
    assert many.ticks[-1] == (1600, "1600")


def test_one_size_alone_has_room_around_it() -> None:
    lo, hi = chart.size_axis([512]).range
    assert lo < 512 < hi


def test_rates_have_their_unit() -> None:
    assert texts(chart.value_axis([2e10, 2e11], formatting.flops_rate)) == [
        "20 GFLOP/s",
        "50 GFLOP/s",
        "100 GFLOP/s",
        "200 GFLOP/s",
    ]
