"""Run-to-run error of times that were measured again and again: numbers in, numbers out."""

import math
from collections.abc import Mapping

import numpy as np
from scipy.stats import chi2

_RESAMPLES = 4000


def errors(times: np.ndarray) -> np.ndarray:
    """Each case's run-to-run error, of (repeats, cases): the standard deviation of log time over the repeats.

    NaN for a single repeat, which says nothing of it.
    """
    if len(times) < 2:
        return np.full(times.shape[1], math.nan)
    return np.log(times).std(axis=0, ddof=1)


def rms(values: np.ndarray) -> float:
    """Root mean square."""
    return math.sqrt(float((values**2).mean()))


def ratio_interval(ours: np.ndarray, theirs: Mapping[str, np.ndarray], share: float = 0.95) -> tuple[float, float]:
    """An interval of the ratio of our error to the smallest of theirs: percentile bootstrap over repeats.

    All are (repeats, cases), repeat i of each measured at about the same moment, and so drawn together. Which
    of theirs is smallest is found anew in each resample. NaN below three repeats; with eight it is rather too
    narrow than too wide, as every percentile bootstrap of few is.
    """
    repeats = len(ours)
    if repeats < 3:
        return math.nan, math.nan
    drawn = np.random.default_rng(0).integers(repeats, size=(_RESAMPLES, repeats))
    drawn = drawn[(drawn != drawn[:, :1]).any(axis=1)]  # of one repeat alone there is no error
    ratios = _rms_of(ours, drawn) / np.min([_rms_of(times, drawn) for times in theirs.values()], axis=0)
    low, high = np.quantile(ratios, [(1 - share) / 2, (1 + share) / 2])
    return float(low), float(high)


def _rms_of(times: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Of every resample, (resamples, repeats), the root mean square over cases of the run-to-run error."""
    return np.sqrt(np.log(times)[drawn].var(axis=1, ddof=1).mean(axis=1))


def error_interval(error: float, repeats: int, cases: int, share: float = 0.9) -> tuple[float, float]:
    """The interval of an error known from some repeats and cases, for log-normal noise alike in all cases.

    That is (repeats − 1) · cases degrees of freedom; where one case dominates it is too narrow. NaN for one repeat.
    """
    degrees = (repeats - 1) * cases
    if degrees == 0:
        return math.nan, math.nan
    low, high = (error * math.sqrt(degrees / chi2.ppf(p, degrees)) for p in ((1 + share) / 2, (1 - share) / 2))
    return low, high
