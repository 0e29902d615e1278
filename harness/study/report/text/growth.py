"""How costs grow with n, as sentences: by scaling exponents, by measured ratios, and by sequential depth.

No sentence says more than the intervals support. Where they decide nothing, the sentence is empty.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from harness.core.model.formatting import count, listed, printable
from harness.study.laws.crossovers import ratio_at
from harness.study.laws.laws import WIDEST, Range
from harness.study.report.chart import Curve
from harness.study.report.document import grouped
from harness.study.report.figure_panels import TIME, Cost

# Exponents this far apart are worth two groups.
_APART = 0.4
# The ratio of the ends of an interval above which a ratio of costs is not known.
_WIDEST_RATIO = 2.0
# The most names in one group of layers.
_MOST_NAMES = 3
_MOST_FORMULAS = 2


def names_of(group: Iterable[str], shown: Sequence[str], are_others: bool = False) -> str:
    """Name some of the layers `shown`: `rnn.*` for a whole family, and `the other layers` if they `are_others`.

    More than three names become a count.
    """
    impls = set(group)
    names: list[str] = []
    for family, members in grouped(shown, lambda impl: impl.rpartition(":")[0] or impl.partition(".")[0]).items():
        inside = [impl for impl in members if impl in impls]
        whole = len(inside) == len(members) > 1 and ":" not in inside[0]
        names += [f"{family}.*"] if whole else map(printable, inside)
    if len(names) > _MOST_NAMES:
        return "the other layers" if are_others else f"{len(impls)} layers"
    return listed(names)


def _subject(group: Sequence[str], shown: Sequence[str], verb: str, are_others: bool = False) -> str:
    """Layers with a verb: `all layers grow`, or `rnn.gru grows`."""
    names = "all layers" if len(group) == len(shown) > 1 else names_of(group, shown, are_others)
    return f"{names} {verb if len(group) > 1 else f'{verb}s'}"


def exponent_sentence(exponents: Mapping[str, Range], where: str, shown: Sequence[str]) -> str:
    """`At n = 2048, rnn.* grow as n^1.0 and attention.fused grows as n^1.8.`

    The layers form two groups if their exponents differ surely and by much, otherwise one. Layers whose exponent is
    not known are left out.
    """
    narrow = {impl: exponent for impl, exponent in exponents.items() if exponent.hi - exponent.lo <= WIDEST}
    order = sorted(narrow, key=lambda impl: narrow[impl].value)
    if not order:
        return ""
    # Split at the widest gap.
    gaps = [narrow[upper].value - narrow[lower].value for lower, upper in pairwise(order)]
    widest = max(gaps, default=0.0)
    at = 1 + gaps.index(widest) if widest >= _APART else len(order)
    low, high = order[:at], order[at:]
    if high and max(narrow[impl].hi for impl in low) < min(narrow[impl].lo for impl in high):
        of_low, of_high = ([narrow[impl].value for impl in group] for group in (low, high))
        are_others = len(narrow) == len(shown)
        return f"{where}, {_grow(low, of_low, shown)}; {_grow(high, of_high, shown, are_others)}."
    ends = [end for exponent in narrow.values() for end in (exponent.lo, exponent.hi)]
    return f"{where}, {_grow(order, ends, shown)}."


def _grow(group: Sequence[str], exponents: Sequence[float], shown: Sequence[str], are_others: bool = False) -> str:
    """`rnn.* grow as n^1.0`, with both ends of different exponents; `rnn.gru stays constant` for 0."""
    lo, hi = (f"n^{exponent:.1f}".replace("^-0.0", "^0.0") for exponent in (min(exponents), max(exponents)))
    if lo == hi == "n^0.0":
        return f"{_subject(group, shown, 'stay', are_others)} constant"
    growth = lo if lo == hi else f"{lo} – {hi}"
    return f"{_subject(group, shown, 'grow', are_others)} as {growth}"


def ratio_sentence(curves: Sequence[Curve], cost: Cost) -> str:
    """`From n = 64 to 2048, the time per call grows 32-fold (rnn.torch) to 595-fold (attention.packed).`

    It compares the curves that reach from the smallest to the largest n. Empty if there is one n only, or no interval
    is known of a time. If the intervals leave open which layer grows most, it names none.
    """
    sizes = [point.n for curve in curves for point in curve.points]
    first, last = min(sizes, default=0), max(sizes, default=0)
    whole = (curve for curve in curves if (curve.x[0], curve.x[-1]) == (first, last))
    folds = {curve.impl: fold for curve in whole if (fold := _fold(curve, cost is not TIME))}
    if first == last or not folds:
        return ""
    least, most = min(folds, key=lambda impl: folds[impl].value), max(folds, key=lambda impl: folds[impl].value)
    start = f"From n = {first} to {last}, the {cost.label} grows"
    if folds[least].hi < folds[most].lo:
        ends = (f"{_times(folds[impl].value)}-fold ({printable(impl)})" for impl in (least, most))
        return f"{start} {' to '.join(ends)}."
    lo, hi = _times(min(fold.lo for fold in folds.values())), _times(max(fold.hi for fold in folds.values()))
    return f"{start} {lo}-fold." if lo == hi else f"{start} {lo} to {hi}-fold."


def _fold(curve: Curve, exact: bool) -> Range | None:
    """The ratio of a curve's last cost to its first; None if its interval is wide or unknown, or hosts differ."""
    first, last = curve.points[0], curve.points[-1]
    value = last.y / first.y
    if exact:
        return Range(value, value, value)
    if first.host and last.host and first.host != last.host:
        return None
    if not (first.lo and first.hi and last.lo and last.hi):
        return None
    _, lo, hi = ratio_at(last.n, (last.y, last.lo, last.hi), (first.y, first.lo, first.hi)).ratio
    return Range(value, lo, hi) if hi <= _WIDEST_RATIO * lo else None


def _times(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}"


def depth_sentence(curves: Sequence[Curve], formulas: Mapping[str, str]) -> str:
    """`rnn.torch runs 3n + 1 operations one after another; attention.* run 5 – 7 at every n.`

    The `formulas` are exact, by layer. Without them, the sentence gives the depths at the largest n.
    """
    shown = [curve.impl for curve in curves]
    constant = {curve.impl: curve.y[0] for curve in curves if len(curve.points) > 1 and len(set(curve.y)) == 1}
    growing = [curve for curve in curves if len(curve.points) > 1 and curve.impl not in constant]
    parts = []
    if growing:
        impls = [curve.impl for curve in sorted(growing, key=lambda curve: curve.y[-1])]
        distinct = dict.fromkeys(formulas.get(impl, "") for impl in impls)
        text, at = " or ".join(distinct), ""
        if len(distinct) > _MOST_FORMULAS or "" in distinct:
            text = _counts(curve.y[-1] for curve in growing)
            at = f" at n = {max(curve.points[-1].n for curve in growing)}"
        who = _subject(impls, shown, "run")
        parts.append(f"{who} {text} operations one after another{at}")
    if constant:
        are_others = len(growing) + len(constant) == len(shown) and bool(growing)
        what = "" if growing else " operations one after another"
        who = _subject(list(constant), shown, "run", are_others)
        parts.append(f"{who} {_counts(constant.values())}{what} at every n")
    sentence = "; ".join(parts)
    return f"{sentence.replace('all layers', 'All layers')}." if parts else ""


def _counts(values: Iterable[float]) -> str:
    counts = list(values)
    least, most = count(min(counts)), count(max(counts))
    return least if least == most else f"{least} – {most}"
