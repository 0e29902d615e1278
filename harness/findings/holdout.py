"""Prediction check: laws fitted to n up to a quarter of the largest, compared with the costs at the largest n."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from harness.findings.laws import laws_of_layer
from harness.findings.prediction import Forecast
from harness.findings.series import Setting, groups, point_of, series_of
from harness.summary import Line

METRICS = ("time", "memory")
# The largest n is predicted from all n up to this share of it.
SHARE = 1 / 4


@dataclass(frozen=True)
class HeldOut:
    """One case of the largest n, predicted from n ≤ `fitted_to`. Costs are in seconds or bytes."""

    impl: str
    setting: Setting
    metric: str
    n: int
    d: int
    h: int
    b: int
    fitted_to: int
    predicted: float
    lo: float
    hi: float
    measured: float

    @property
    def error(self) -> float:
        """The signed relative error of the prediction."""
        return self.predicted / self.measured - 1

    @property
    def covered(self) -> bool:
        """Whether the measured cost lies in the prediction interval."""
        return self.lo <= self.measured <= self.hi


@dataclass(frozen=True)
class Score:
    """How well one metric was predicted.

    `error` is the median over layers of each layer's median error. The intervals of `covered` of the `predictions`
    contain the measured cost.
    """

    metric: str
    error: float
    covered: int
    predictions: int


def hold_out(lines: Iterable[Line]) -> list[HeldOut]:
    """Predict every case of each layer's largest n with laws fitted to a quarter of this n and below.

    Larger sizes influence nothing, not even which terms the laws consist of.
    """
    return [one for members in groups(lines).values() for one in _of_layer(members)]


def _of_layer(lines: Sequence[Line]) -> list[HeldOut]:
    done = [line for line in lines if any(point_of(line, metric) for metric in METRICS)]
    largest = max((line.seq_len for line in done), default=0)
    kept = [line for line in done if line.seq_len <= SHARE * largest]
    top = [line for line in done if line.seq_len == largest]
    if not kept:
        return []
    found = []
    for fitted in laws_of_layer(kept):
        one = fitted.series
        measured = series_of(top, one.metric) if one.metric in METRICS else None
        if measured is None or len({point.n for point in one.points}) < 2:
            continue
        forecast = Forecast(fitted)
        fitted_to = max(point.n for point in one.points)
        for point in measured.points:
            size = (point.n, point.d, point.h, point.b)
            try:
                said = forecast(*size)
            except ValueError:  # no prediction, for a width measured only at the largest n, for example
                continue
            ends = (said.value, said.lo, said.hi, point.value)
            found.append(HeldOut(one.impl, one.setting, one.metric, *size, fitted_to, *ends))
    return found


def scores(held_out: Sequence[HeldOut]) -> list[Score]:
    """Return the score of each metric that was predicted."""
    return [
        _score(metric, of_metric) for metric in METRICS if (of_metric := [h for h in held_out if h.metric == metric])
    ]


def _score(metric: str, held_out: Sequence[HeldOut]) -> Score:
    by_impl: dict[str, list[float]] = {}
    for one in held_out:
        by_impl.setdefault(one.impl, []).append(abs(one.error))
    error = median(median(errors) for errors in by_impl.values())
    return Score(metric, error, sum(one.covered for one in held_out), len(held_out))
