"""The sentences of the report about the analysis."""

import pytest
from report.found import FORWARD, some_findings

from harness.analysis.crossovers import Crossover
from harness.report.text.costs import COST_TEXTS, possible_crossings

FOUND = some_findings([])


def crossover(n: float | None, lo: float | None, hi: float | None, slower: str = "a", faster: str = "b") -> Crossover:
    return Crossover(slower, faster, FORWARD, "time", 256, 8, 1, n, lo, hi, 64, 2048)


def test_a_pair_is_told_once_and_only_if_it_crosses_or_may() -> None:
    crossing = crossover(768.0, 700.0, 900.0)
    back = crossover(None, 0.0, None, "b", "a")
    never = crossover(None, 2048.0, None, "a", "c")
    always = crossover(0.0, 0.0, 0.0, "c", "a")
    assert possible_crossings([back, crossing, never, always]) == [crossing]


def test_sure_crossings_come_before_undecided_ones_and_by_n() -> None:
    late, early = crossover(900.0, 800.0, 950.0), crossover(100.0, 90.0, 120.0, "c", "d")
    open_one = crossover(None, 0.0, None, "e", "f")
    assert possible_crossings([open_one, late, early]) == [early, late, open_one]


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("time", 0.0021, "2.10 ms"),
        ("memory", 2**20, "1.00 MiB"),
        ("flops", 4.19e8, "4.19·10⁸ FLOPs"),
        ("depth", 770, "770"),
    ],
)
def test_a_cost_has_its_unit(metric: str, value: float, text: str) -> None:
    assert COST_TEXTS[metric](value) == text
