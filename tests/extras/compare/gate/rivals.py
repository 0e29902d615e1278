"""How others' gates judge the same samples: whether each calls a case slower.

A sample is what a turn took in the mean; both sides' turns alternate, which spares these rules the drifts that they
meet when the two sides are measured one after the other.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import mannwhitneyu

Samples = np.ndarray


def sides(blocks: Sequence[Mapping[str, Any]]) -> tuple[list[Samples], list[Samples]]:
    """Of each block, the samples of A and of B, in seconds: the first measurement's."""
    first = [block for block in blocks if block["stage"] == "first"]
    orders = [np.array(list(block["order"])) for block in first]
    times = [np.array(block["mean_s"]) for block in first]
    return [t[o == "A"] for o, t in zip(orders, times, strict=True)], [
        t[o == "B"] for o, t in zip(orders, times, strict=True)
    ]


def mean_5_percent(a: Sequence[Samples], b: Sequence[Samples]) -> bool:
    """pytest-benchmark's `--benchmark-compare-fail=mean:5%`, over all rounds of all processes."""
    return bool(np.concatenate(b).mean() > 1.05 * np.concatenate(a).mean())


def mean_5_percent_one_process(a: Sequence[Samples], b: Sequence[Samples]) -> bool:
    """The same as it is used: each side's rounds are of one process."""
    return mean_5_percent(a[:1], b[:1])


def asv(a: Sequence[Samples], b: Sequence[Samples]) -> bool:
    """asv: the medians differ by its factor of 1.1, and the Mann-Whitney test by its threshold of 0.002."""
    x, y = np.concatenate(a), np.concatenate(b)
    return bool(np.median(y) > 1.1 * np.median(x) and mannwhitneyu(x, y).pvalue < 0.002)


def google_benchmark(a: Sequence[Samples], b: Sequence[Samples]) -> bool:
    """google-benchmark's compare.py: a U-test of the repetitions' times, 0.05, and the mean is larger.

    A repetition is a process's mean; it asks for nine of them at least.
    """
    x, y = (np.array([samples.mean() for samples in side]) for side in (a, b))
    return bool(mannwhitneyu(x, y).pvalue < 0.05 and y.mean() > x.mean())


RULES: Mapping[str, Callable[[Sequence[Samples], Sequence[Samples]], bool]] = {
    "pytest-benchmark, mean:5%, one process": mean_5_percent_one_process,
    "pytest-benchmark, mean:5%, all processes": mean_5_percent,
    "asv, Mann-Whitney and 1.1×": asv,
    "google-benchmark, U-test": google_benchmark,
}
