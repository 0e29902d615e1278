"""Draw the pictures of docs/explanation/estimator.md from a run.

.venv/bin/python benchmarks/estimator_pictures.py results/latest     writes docs/pictures/estimator_*.png
"""

import math
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from scipy.stats import t as student

from harness.core.results.row_files import read_run
from harness.core.results.summarise import Trials
from harness.core.stats import noise_prior
from harness.core.stats.estimate import counted, trial_statistics
from harness.core.stats.interval import Floats, simulated

DIRECTORY = Path(__file__).resolve().parents[1] / "docs" / "pictures"
OWN, MODERATED, PRIOR = "#9aa5b1", "#1b6ca8", "#c1440e"
# The cases of the first picture, evenly spread over the times.
SHOWN = 12
# Of the prior, a Student t distribution.
FREEDOM = 5


class Cases:
    """The timed cases of a run. Of each: its trials and which of them count, its noise, and its intervals."""

    def __init__(self, run: Path) -> None:
        trials = Trials(read_run(run)[0])
        number = len(trials.counts)
        groups = list(trials.groups(np.ones(number, dtype=bool), trials.best_probes([1] * number)))
        values = [group.column("value_s") for group in groups]
        found = [trial_statistics(one, one, group.quiet()) for one, group in zip(values, groups, strict=True)]
        self.values_s = [of_case for one in values for of_case in one]
        self.counts = [of_case for group in groups for of_case in counted(group.quiet())]
        self.spreads = np.concatenate([one.spreads for one in found])
        self.numbers = np.concatenate([one.numbers for one in found])
        self.time_s = np.concatenate([one.time_s for one in found])
        prior = noise_prior.learn(self.spreads, self.numbers, self.time_s)
        self.prior = prior
        self.alone = np.concatenate([one.own_distances for one in found], axis=1)
        self.borrowed = prior.log_distances(self.spreads, self.numbers, self.time_s, self.alone)


def draw_trials(cases: Cases) -> None:
    """The trials of some cases, divided by the time of the case, with its interval."""
    order = np.argsort(cases.time_s)
    shown = order[np.linspace(0, len(order) - 1, SHOWN).astype(int)]
    _, axes = plt.subplots(figsize=(7.2, 3.4))
    down, up = cases.borrowed
    for place, case in enumerate(shown):
        ratio = cases.values_s[case] / cases.time_s[case]
        axes.vlines(place, math.exp(-down[case]), math.exp(up[case]), color=MODERATED, linewidth=7, alpha=0.35)
        for counting, face in ((True, OWN), (False, "white")):
            chosen = ratio[cases.counts[case] == counting]
            axes.scatter([place] * len(chosen), chosen, s=18, facecolor=face, edgecolor="#5b6672", zorder=3)
        axes.hlines(1, place - 0.3, place + 0.3, color=PRIOR, linewidth=2, zorder=4)
    axes.set_yscale("log")
    ticks = [ratio for ratio in (0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5) if axes.get_ylim()[0] <= ratio <= axes.get_ylim()[1]]
    axes.set_yticks(ticks, [f"{ratio:g}" for ratio in ticks])
    axes.minorticks_off()
    axes.set_xticks(range(SHOWN), [_milliseconds(cases.time_s[case]) for case in shown])
    axes.set(xlabel="time of the case, ms", ylabel="trial / time of its case")
    _save("trials")


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.2g}" if seconds < 0.1 else f"{1e3 * seconds:.0f}"


def draw_prior(cases: Cases) -> None:
    """The noise of each case by its own trials alone and after moderation, with the prior of all cases."""
    centre = cases.prior.log_sigma(cases.time_s)
    log_spreads = np.log(np.maximum(cases.spreads, 1e-4))
    own, moderated = np.empty_like(centre), np.empty_like(centre)
    for case, number in enumerate(cases.numbers.tolist()):
        log_sigma = log_spreads[case] - np.log(simulated(number)[1])
        weights = student.pdf((log_sigma - centre[case]) / cases.prior.scale, FREEDOM)
        own[case], moderated[case] = log_sigma.mean(), np.average(log_sigma, weights=weights)
    _, axes = plt.subplots(figsize=(7.2, 3.4))
    low, high = np.quantile(own, (0.01, 0.99)) + np.array((-0.5, 0.5))
    grid, bins = np.linspace(low, high, 300), np.linspace(low, high, 24).tolist()
    axes.hist(own, bins, density=True, color=OWN, alpha=0.7, label="each case's own trials")
    axes.hist(
        moderated,
        bins,
        density=True,
        histtype="step",
        color=MODERATED,
        linewidth=1.8,
        label="moderated",
    )
    density = student.pdf(grid, FREEDOM, loc=float(np.mean(centre)), scale=cases.prior.scale)
    axes.plot(grid, density, color=PRIOR, linewidth=1.8, label="prior, learnt from all cases")
    ticks = [share for share in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1) if low <= math.log(share) <= high]
    axes.set_xticks(np.log(ticks), [f"{100 * share:g} %" for share in ticks])
    axes.set(xlabel="noise of a case, σ of log time", ylabel="density of cases")
    axes.legend(frameon=False)
    _save("prior")


def draw_widths(cases: Cases) -> None:
    """The width of the interval of each case, alone and with the prior."""
    _, axes = plt.subplots(figsize=(7.2, 3.4))
    for (down, up), color, label in ((cases.alone, OWN, "alone"), (cases.borrowed, MODERATED, "with the prior")):
        widths: Floats = np.sort(np.exp(down + up))
        share = (np.arange(len(widths)) + 1) / len(widths)
        axes.step(widths, 100 * share, where="post", color=color, linewidth=1.8, label=label)
        axes.axvline(float(np.median(widths)), color=color, linestyle=":", linewidth=1.2)
    axes.set_xscale("log")
    ticks = [ratio for ratio in (1, 1.3, 2, 4, 10) if ratio <= axes.get_xlim()[1]]
    axes.set_xticks(ticks, [f"{ratio:g}" for ratio in ticks])
    axes.minorticks_off()
    axes.set(xlabel="upper over lower end of the 95 % interval", ylabel="cases up to there, %", xlim=(1, None))
    axes.legend(frameon=False)
    _save("widths")


def _save(name: str) -> None:
    sns.despine()
    plt.tight_layout()
    plt.savefig(DIRECTORY / f"estimator_{name}.png", dpi=130)
    plt.close()


if __name__ == "__main__":
    run = Cases(Path(sys.argv[1]))
    draw_trials(run)
    draw_prior(run)
    draw_widths(run)
