"""How often a 95 % interval contains the true value, by kind of noise, with the stopping rule at work; in simulation.

Rows: the kind of noise (`tests/core/stats/noise.py`). Columns: its spread, as a multiple of the precision asked for; in
brackets the trials taken on average. First the rule as it is, for a case alone, then as it would be if it stopped at
once. Then the cases of whole runs, which borrow strength from each other: by machine (see
`tests/core/stats/population.py`) and share of disturbed trials, with the width of the interval in brackets, and beside
it each case alone.
"""

import numpy as np
import pytest
from core.stats.noise import KINDS
from core.stats.population import MACHINES, Disturbance, population
from core.stats.simulation import coverage

from harness.core.config import compose
from harness.core.stats import estimate

SPREADS = (0.1, 0.25, 0.5, 1.0, 2.0)
REPEATS = 8_000
# Of 96 cases each.
RUNS = 20
DISTURBED = (0.0, 0.4, 0.8)


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


def test_coverage_of_whole_runs() -> None:
    print(f"\nshare of intervals that hold the truth, % (median hi/lo), of {96 * RUNS} cases, by trials disturbed")
    for name in ("quick", "standard", "strict"):
        precision = compose([f"precision={name}"], None).precision
        for machine, spreads in MACHINES.items():
            print(
                f"\n{name + ', ' + machine:<22}" + "".join(f"{share:>15.0%}" for share in DISTURBED) + f"{'alone':>15}"
            )
            for kind, draw in KINDS.items():
                found = [population(draw, spreads, precision, Disturbance(share), runs=RUNS) for share in DISTURBED]
                found.append(population(draw, spreads, precision, runs=RUNS, alone=True))
                cells = (f"{100 * one.share:>7.1f} ({np.exp(one.width):.2f})" for one in found)
                print(f"  {kind:<20}" + "".join(f"{cell:>15}" for cell in cells))
