"""Times with the cost model: how often their intervals hold the truth, and how often any crossover is wrong.

In simulation (`tests/study/laws/smoothed_runs.py`), by kind of noise and machine. First without and then with the law:
the share of intervals that hold the true time, and the median of hi/lo. Then the share of runs in which any ratio of
two layers is called above or below 1 wrongly, and how many of the 76 crossovers are decided: with intervals for each
ratio alone, and with those for all ratios together.
"""

import numpy as np
import pytest
from core.stats.noise import KINDS
from core.stats.population import MACHINES
from study.laws.smoothed_runs import smoothed_run

from harness.core.model.sweep_axes import Case
from harness.core.results.columns import CaseResult
from harness.study.laws import crossovers

RUNS = 10
MISFITS = (0.0, 0.03, 0.1)


def test_coverage_with_the_law() -> None:
    print(f"\nshare of intervals that hold the truth, % (hi/lo), of {96 * RUNS} cases, without and with the law")
    for machine, spreads in MACHINES.items():
        print(f"\n{machine:<14}" + "".join(f"{f'misfit {misfit:.0%}':>34}" for misfit in MISFITS))
        for kind, draw in KINDS.items():
            cells = []
            for misfit in MISFITS:
                runs = [smoothed_run(draw, spreads, seed, misfit) for seed in range(RUNS)]
                every = [(line, truth[line.case]) for lines, truth in runs for line in lines]
                alone = _held([(line.time_lo_s, line.time_hi_s, true) for line, true in every])
                cells.append(f"{alone} → {_held([(*line.best_known_time[1:], true) for line, true in every])}")
            print(f"  {kind:<12}" + "".join(f"{cell:>34}" for cell in cells))


def _held(known: list[tuple[float, float, float]]) -> str:
    share = np.mean([lo <= true <= hi for lo, hi, true in known])
    return f"{100 * share:.1f} ({np.median([hi / lo for lo, hi, _ in known]):.2f})"


def test_any_crossover_is_wrong_in_one_run_in_twenty_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    simultaneous = crossovers._factor
    print(f"\n{'runs with a wrong ratio; decided':<34}{'each ratio alone':>20}{'all together':>20}")
    total = np.zeros(2)
    for machine, spreads in MACHINES.items():
        for kind, draw in KINDS.items():
            runs = [smoothed_run(draw, spreads, 1000 + seed) for seed in range(RUNS)]
            cells = []
            for i, factor in enumerate((lambda compared: 1.0, simultaneous)):
                monkeypatch.setattr(crossovers, "_factor", factor)
                found = [_judged(lines, truth) for lines, truth in runs]
                total[i] += sum(wrong for wrong, _ in found)
                cells.append(f"{sum(wrong for wrong, _ in found)}; {np.mean([share for _, share in found]):.0%}")
            print(f"  {machine + ', ' + kind:<32}" + "".join(f"{cell:>20}" for cell in cells))
    number = RUNS * len(MACHINES) * len(KINDS)
    print("  all runs".ljust(34) + "".join(f"{f'{wrong:.0f} of {number}':>20}" for wrong in total))


def _judged(lines: list[CaseResult], truth: dict[Case, float]) -> tuple[bool, float]:
    """Whether any crossover is wrong at a size at which it says which layer costs more, and the share decided."""
    true = {(case.impl, case.d_model, case.num_heads, case.seq_len): time for case, time in truth.items()}
    found = [one for one in crossovers.crossovers(lines) if one.metric == "time"]
    wrong = False
    for one in found:
        for n in (64, 128, 256, 512, 1024, 2048):
            heads = [1 if impl.startswith("rnn") else one.num_heads for impl in (one.slower, one.faster)]
            slower, faster = (
                true[impl, one.d_model, h, n] for impl, h in zip((one.slower, one.faster), heads, strict=True)
            )
            surely_above = one.seq_len_hi is not None and n >= max(one.seq_len_hi, 1)
            surely_not = one.seq_len_lo == n == one.measured_to
            wrong |= (surely_above and slower < faster) or (surely_not and slower > faster)
    return wrong, float(np.mean([one.decided for one in found]))
