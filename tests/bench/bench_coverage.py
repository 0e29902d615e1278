"""How often a 95 % interval contains the true value, by kind of noise, with the stopping rule at work; in simulation.

Rows: the kind of noise (`tests/stats/noise.py`). Columns: its spread, as a multiple of the precision asked for; in
brackets the trials taken on average. Above, the rule as it is; below, as it would be if it stopped at once.
"""

import pytest
from stats.noise import KINDS
from stats.simulation import coverage

from harness.config import compose
from harness.stats import estimate

SPREADS = (0.1, 0.25, 0.5, 1.0, 2.0)
REPEATS = 8_000


def _print_coverage() -> None:
    for name in ("quick", "standard", "strict"):
        precision = compose([f"precision={name}"], None).precision
        print(f"\n{name:<22}" + "".join(f"{spread:>14g}" for spread in SPREADS))
        for kind, draw in KINDS.items():
            found = [coverage(draw, spread * precision.target, precision, REPEATS, seed=1) for spread in SPREADS]
            print(f"  {kind:<20}" + "".join(f"{100 * f.share:>7.1f} ({f.trials:4.1f})" for f in found))


def test_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    print("\nshare of intervals that hold the truth, % (trials)")
    _print_coverage()
    monkeypatch.setattr(estimate, "CONFIRMATION", 0.0)
    print("\nwithout paying for having looked")
    _print_coverage()
