"""Findings as text: cost models, their predictions, the verdicts on claims, and how far back a gradient reaches."""

import math
from collections.abc import Iterable, Sequence

from harness import formatting
from harness.analysis.claims import REFUTED
from harness.analysis.claims_table import VERDICTS, Verdict
from harness.analysis.fitted_laws import FittedLaw
from harness.analysis.predict import HeldOut, scores
from harness.fit.gradient_decay import FLOOR, Decay, Rate
from harness.fit.laws import Range
from harness.report.text.costs import METRIC_NAMES, SettingLabel, between_text


def law_formula(fitted: FittedLaw) -> str:
    """The cost model of a series, the fastest growing term first.

    `37.1 ps·n²·d + 12.4 ps·n·d² + 21.0 µs` for time, `4n²·d + 8n·d²` for FLOPs.
    """
    said = ""
    for c in reversed(fitted.law.coefficients):
        sign = "−" if c.value < 0 else "+"
        written = _written(_coefficient(fitted.series.metric, abs(c.value)), str(c.term))
        said += f" {sign} {written}" if said else written if c.value >= 0 else f"−{written}"
    return said or "0"


def coefficient_text(fitted: FittedLaw) -> list[tuple[str, str, str]]:
    """(term, coefficient, its interval) of each term, the fastest growing first."""
    metric = fitted.series.metric
    return [
        (str(c.term), _coefficient(metric, c.value), between_text(c.lo, c.hi, lambda end: _coefficient(metric, end)))
        for c in reversed(fitted.law.coefficients)
    ]


def exponent_text(found: Range | None) -> str:
    """A scaling exponent with its interval: `1.87 (1.75 to 1.98)`. An exact one is the value alone."""
    if found is None:
        return ""
    if found.hi - found.lo < 0.005:
        return _two(found.value)
    return f"{_two(found.value)} ({between_text(found.lo, found.hi, _two)})"


def _two(value: float) -> str:
    return f"{value + 0.0:.2f}".replace("-0.00", "0.00").replace("-", "−")


def break_text(fitted: FittedLaw) -> str:
    """The n from which the law holds, in words; empty if no other law holds below."""
    return f"from n = {fitted.law.breaks[-1].n:.0f} on" if fitted.law.breaks else ""


def _coefficient(metric: str, value: float) -> str:
    if metric == "time":
        return formatting.seconds(value)
    if metric == "memory":
        return f"{value:.3g} B" if abs(value) < 1000 else formatting.size(value)
    return formatting.power_of_ten(value)


def _written(coefficient: str, term: str) -> str:
    if term == "1":
        return coefficient
    if coefficient == "1":
        return term
    return f"{coefficient}{term}" if coefficient.isdigit() else f"{coefficient}·{term}"


def held_out_sentences(held_out: Sequence[HeldOut]) -> list[str]:
    """A sentence for each metric: how well cost models predicted cases that they were not fitted to.

    It gives the size of the errors, and how many cases lie in the prediction interval.
    """
    said = []
    for score in scores(held_out):
        worst = max((one for one in held_out if one.metric == score.metric), key=lambda one: abs(one.error))
        said.append(
            "Laws fitted to a quarter of the largest n and below predict the "
            f"{METRIC_NAMES[score.metric]} there to within {formatting.share(score.error)} (median; at worst "
            f"{formatting.share(abs(worst.error))}: {worst.impl} n={worst.n} d={worst.d} h={worst.h}); "
            f"{score.covered} of {score.predictions} cases lie in the predicted interval."
        )
    return said


def signed_share(error: float) -> str:
    """A relative error with its sign: `+12 %`, `−3.1 %`."""
    return ("−" if error < 0 else "+") + formatting.share(abs(error))


QUANTITIES = {
    "work": "work, forward",
    "work_train": "work, training",
    "work_backward": "work, backward",
    "work_decode": "work, one token",
    "memory": "memory",
    "depth": "sequential operations",
    "path": "longest path",
    "time": "time",
}


def verdict_count(verdicts: Sequence[Verdict]) -> str:
    """`Of 30 claims 27 confirmed, 1 refuted, 2 undetermined.`"""
    numbers = [(sum(one.verdict == kind for one in verdicts), kind) for kind in VERDICTS]
    said = [f"{number} {kind}" for number, kind in numbers if number]
    return f"Of {len(verdicts)} claims {', '.join(said)}." if said else ""


def refuted_sentences(verdicts: Iterable[Verdict]) -> list[str]:
    """One sentence for each refuted claim, which names what distinguishes its setting from the others'."""
    among = list(verdicts)
    where = SettingLabel.among(one.setting for one in among).beside_mode()
    return [_refuted(one, where(one.setting)) for one in among if one.verdict == REFUTED]


def _refuted(one: Verdict, where: str) -> str:
    # The mode follows in brackets: `work, forward` would give it twice.
    quantity = claim_name(one.quantity).partition(",")[0]
    of_what = f"{one.impl} ({', '.join(filter(None, (one.setting.mode, where)))})"
    return f"Refuted: {of_what} claims {quantity} of {one.claimed}, measured {one.measured}: {one.reason.rstrip('.')}."


def claim_name(quantity: str) -> str:
    """The quantity in words; an unknown one by its own name."""
    return QUANTITIES.get(quantity, quantity)


# A rate matters only if it changes the gradient by at least this factor over all distances.
_MATTERS = 2.0


def gradient_reach_sentence(found: Decay) -> str:
    """How far back a gradient reaches: what each step back keeps of it, and what to know about that rate."""
    if found.rate is None:
        return f"too few distances to tell a rate.{_beyond_text(found)}"
    halves = "" if found.steady else _halves(found)
    return f"{_trend(found, found.rate)}{halves}{_beyond_text(found)}"


def _trend(found: Decay, rate: Rate) -> str:
    keeps = f"{rate.value:.3f}{_between_distances(rate)}"
    total = rate.value**found.fitted
    if 1 / _MATTERS < total < _MATTERS:
        return f"no fading over {found.fitted} tokens: each step back keeps {keeps} of it."
    if rate.lo <= 1 <= rate.hi < math.inf:
        return f"each step back keeps {keeps} of it, by seeds too few or too unlike to tell whether it fades."
    if rate.value > 1:
        return f"it grows: each step back makes it {keeps} times as large."
    return f"each step back keeps {keeps} of it; half is gone after {half_distance(found)} tokens."


def _halves(found: Decay) -> str:
    assert found.near is not None
    assert found.far is not None
    middle = found.fitted // 2
    return f" Not at one rate: {found.near.value:.3f} a step up to {middle} tokens, {found.far.value:.3f} beyond."


def _beyond_text(found: Decay) -> str:
    if found.underflows:
        return f" Beyond {found.fitted} tokens it is below {FLOOR:g}, too small for a float64."
    if found.reach > found.fitted:
        return f" It has gaps: from {found.fitted + 1} tokens back comes nothing, from {found.reach} something."
    if found.ends:
        tokens = f"{found.reach} token{'' if found.reach == 1 else 's'}"
        return f" Nothing from more than {tokens} back has any influence: exactly 0."
    return ""


def _between_distances(rate: Rate) -> str:
    return f" ({rate.lo:.3f} to {rate.hi:.3f})" if rate.hi < math.inf else ""


def reach_interval(found: Decay) -> str:
    """The rate's interval between seeds; `one seed` if there is only one, empty without a rate."""
    if found.rate is None:
        return ""
    return f"{found.rate.lo:.3f} to {found.rate.hi:.3f}" if found.rate.hi < math.inf else "one seed"


def half_distance(found: Decay) -> str:
    """The tokens after which half is left; `∞` from 10 times the fitted distance on, empty without a rate."""
    if found.rate is None:
        return ""
    half = found.rate.half_distance
    return f"{half:.3g}" if half < 10 * found.fitted else "∞"
