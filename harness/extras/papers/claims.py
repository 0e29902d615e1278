"""A paper's published figures beside the measured ones, and a verdict on each of its claims.

Claims are ratios or shapes (a power of n, an overtaking), which carry over between machines. Times do not.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from harness.core.model import formatting
from harness.core.model.sweep_axes import AXES, LETTERS
from harness.core.results.columns import CaseResult
from harness.study.claims.claim_rules import CONFIRMED, NOT_MEASURED, REFUTED, UNDETERMINED, Judgement
from harness.study.laws.crossovers import CostRatio, find_overtaking, layers_without_heads, ratio_at
from harness.study.laws.series import unlikeness
from harness.study.report.document import Row, Section, Sentence, Table, grouped
from harness.study.report.text import claims

from .papers import QUANTITIES, Claim, Figure, Known, Paper, Size, paper_of, size_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class MeasuredValue:
    """A quantity of a line, or its ratio to that of another line.

    `known` is None if no number was measured; `ended` then says why.
    """

    line: CaseResult
    known: Known | None
    ended: str


def measured_value(
    lines: Sequence[CaseResult], quantity: str, of: str, over: str, at: Size, against: Size | None = None
) -> list[MeasuredValue]:
    """Return the quantity for every line of the layer `of` that matches `at`, in ascending order of n.

    If `over` names a layer, the quantity is divided by that of `over` at the same point. With `against`, the result is
    divided by the same quantity at the other values that `against` gives for some axes. Points without a line to
    divide by are left out. Layers without heads match every number of heads.
    """
    if against:
        elsewhere = measured_value(lines, quantity, of, over, {**at, **against})
        there = {_place(value.line, against): value for value in elsewhere}
        here = measured_value(lines, quantity, of, over, at)
        both = [(value, there.get(_place(value.line, against))) for value in here]
        return [_divided(value.line, value, other) for value, other in both if other is not None]
    of_layer = (line for line in lines if line.impl == of)
    matching = (line for line in of_layer if all(_value(line, axis) in values for axis, values in at.items()))
    mine = sorted(matching, key=attrgetter("seq_len"))
    if not over:
        return [_known(line, quantity) for line in mine]
    ignored = {"num_heads"} if {of, over} & layers_without_heads(lines) else set()
    divisors = {_place(line, ignored): line for line in lines if line.impl == over}
    pairs = [(line, divisors.get(_place(line, ignored))) for line in mine]
    return [_ratio(line, other, quantity) for line, other in pairs if other is not None]


def _value(line: CaseResult, axis: str) -> Any:
    return line.d_model // line.num_heads if axis == "head_dim" else getattr(line, axis)


def _place(line: CaseResult, ignored: Collection[str]) -> tuple[Any, ...]:
    """The point of a line, without the layer and the `ignored` axes."""
    return tuple(getattr(line, axis) for axis in AXES if axis not in ("impl", *ignored))


def _known(line: CaseResult, quantity: str) -> MeasuredValue:
    known = QUANTITIES[quantity].of(line)
    return MeasuredValue(line, known, "" if known else line.status if line.status != "ok" else "not measured")


def _ratio(line: CaseResult, other: CaseResult, quantity: str) -> MeasuredValue:
    values = [_known(each, quantity) for each in (line, other)]
    values = [replace(value, ended=value.ended and f"{value.line.impl} {value.ended}") for value in values]
    return _divided(line, *values)


def _divided(line: CaseResult, value: MeasuredValue, other: MeasuredValue) -> MeasuredValue:
    """The ratio of two quantities, attributed to `line`. Its interval assumes independent errors."""
    if value.known is None or other.known is None:
        return MeasuredValue(line, None, ", ".join(dict.fromkeys(filter(None, (value.ended, other.ended)))))
    if min(value.known[0], other.known[0]) <= 0:
        return MeasuredValue(line, None, "nothing to divide")
    unlike = unlikeness(value.line, other.line)
    return MeasuredValue(line, ratio_at(line.seq_len, value.known, other.known, unlike).ratio, "")


_Points = Sequence[tuple[CaseResult, Known]]


@dataclass(frozen=True)
class JudgedClaim:
    """A claim and the judgement on it."""

    claim: Claim
    judgement: Judgement


def judge_claims(paper: Paper, lines: Sequence[CaseResult]) -> list[JudgedClaim]:
    """Judge every claim of the paper, in the paper's order."""
    return [JudgedClaim(claim, _judge_claim(claim, lines)) for claim in paper.claims]


def _judge_claim(claim: Claim, lines: Sequence[CaseResult]) -> Judgement:
    values = measured_value(lines, claim.quantity, *claim.of, claim.at, claim.against)
    if not values:
        return Judgement("", NOT_MEASURED, "no case of it was measured")
    points = [(value.line, value.known) for value in values if value.known is not None]
    if not points:
        return Judgement("", UNDETERMINED, f"no number was measured: {values[0].ended}")
    if claim.kind == "exponent":
        return _exponent(claim, _along_n(points))
    if claim.kind == "overtakes":
        judged = _along_n(points)
        judgement = _overtakes(claim, judged)
    else:
        judged = _widest(points)
        judgement = _value_claim(claim, judged)
    missing = [value for value in values if value.known is None and _size(value.line) >= _size(judged[0][0])]
    if judgement.verdict != CONFIRMED or not missing:
        return judgement
    reason = f"no number was measured at n = {missing[0].line.seq_len}: {missing[0].ended}"
    return replace(judgement, verdict=UNDETERMINED, reason=reason)


def _size(line: CaseResult) -> tuple[int, int]:
    return line.d_model, line.num_heads


def _widest(points: _Points) -> _Points:
    """The points with the largest width and, of these, the most heads."""
    widest = max(_size(line) for line, _ in points)
    return [(line, value) for line, value in points if _size(line) == widest]


def _along_n(points: _Points) -> _Points:
    """The longest row of points that differ only in n. Ties go to the larger width, then to more heads."""
    rows = grouped(points, lambda point: _place(point[0], ["seq_len"]))
    return max(rows.values(), key=lambda row: (len(row), *_size(row[0][0])))


def _verdict(known: Known, least: float, most: float) -> str:
    """Confirmed if the whole interval lies between the bounds, refuted if none of it does."""
    _, lo, hi = known
    if hi < least or lo > most:
        return REFUTED
    return CONFIRMED if least <= lo and hi <= most else UNDETERMINED


def _value_claim(claim: Claim, points: _Points) -> Judgement:
    """Judge whether all points lie between two bounds. One point outside refutes the claim."""
    (claimed,) = claim.wanted
    number, within = _number(claimed), claim.within
    least, most, sentence = {
        "about": (claimed * (1 - within), claimed * (1 + within), f"{number} ± {100 * within:.0f} %"),
        "at_least": (claimed, math.inf, f"{number} or more"),
        "at_most": (-math.inf, claimed, f"{number} or less"),
    }[claim.kind]
    text = ", ".join(_claim_at(line, value, several=len(points) > 1) for line, value in points)
    first = {_verdict(value, least, most): (line.seq_len, value) for line, value in reversed(points)}
    if REFUTED in first:
        n, value = first[REFUTED]
        return Judgement(text, REFUTED, f"at n = {n} it is {_number(value[0])}, and not {sentence}")
    if UNDETERMINED in first:
        n, _ = first[UNDETERMINED]
        return Judgement(text, UNDETERMINED, f"the interval at n = {n} holds numbers that are not {sentence}")
    return Judgement(text, CONFIRMED, f"{sentence}{' at every n' if len(points) > 1 else ''}")


def _exponent(claim: Claim, points: _Points) -> Judgement:
    by_n = {line.seq_len: of_n for line, of_n in points}
    large = max(by_n)
    # Steps of blocks hide the power between lengths that are close together.
    small = max((n for n in by_n if 2 * n <= large), default=None)
    if small is None:
        return Judgement("", UNDETERMINED, "n was not varied alone, by a factor of 2 at least")
    run = math.log(large / small)
    if min(*by_n[small][:2], *by_n[large][:2]) <= 0 or math.inf in (by_n[small][2], by_n[large][2]):
        return Judgement("", UNDETERMINED, "one trial has no interval")
    gap = ratio_at(large, by_n[large], by_n[small])
    value, lo, hi = power = (gap.value / run, gap.lo / run, gap.hi / run)
    interval = f" ({lo:.2f} to {hi:.2f})" if hi - lo > 0.005 else ""
    text = f"n^{value:.2f}{interval} from n = {small} to {large}"
    (claimed,) = claim.wanted
    sentence = f"{claimed:g} ± {claim.within:g}"
    verdict = _verdict(power, claimed - claim.within, claimed + claim.within)
    if verdict == UNDETERMINED:
        return Judgement(text, verdict, f"the power may be {sentence}, and may be another")
    return Judgement(text, verdict, f"the power is {'not ' if verdict == REFUTED else ''}{sentence}")


def _overtakes(claim: Claim, points: _Points) -> Judgement:
    gaps = [
        CostRatio(line.seq_len, *(math.log(end) if end > 0 else -math.inf for end in ends)) for line, ends in points
    ]
    over, (least, most) = find_overtaking(gaps), claim.wanted
    sentence = f"the paper has it from an n between {least:.0f} and {most:.0f} on"
    if least <= 0:
        sentence = f"the paper has it from n = {most:.0f} on at the latest"
    largest, smallest = gaps[-1].n, gaps[0].n
    if over.n == 0:  # it was above before the smallest n
        earlier = CONFIRMED if least <= 0 else REFUTED if smallest <= least else UNDETERMINED
        verdict = earlier if smallest <= most else UNDETERMINED
        return Judgement(f"at every n measured, from {smallest:.0f} on", verdict, sentence)
    if over.n is not None and over.lo is not None and over.hi is not None:
        text = f"from n = {over.n:.0f} ({over.lo:.0f} to {over.hi:.0f}) on"
        return Judgement(text, _verdict((over.n, over.lo, over.hi), least, most), sentence)
    if over.lo == largest:
        verdict = REFUTED if largest >= most else UNDETERMINED
        return Judgement(f"not below n = {largest:.0f}", verdict, sentence)
    return Judgement("undecided: within the measurement error", UNDETERMINED, sentence)


def _claim_at(line: CaseResult, known: Known, several: bool) -> str:
    value, lo, hi = known
    interval = f" ({_number(lo)} to {_number(hi)})" if hi - lo > 0.005 * value else ""
    return f"{_number(value)}{interval}" + (f" at n = {line.seq_len}" if several else "")


def _number(value: float) -> str:
    """Format a number with three significant digits, or as an integer from 100 on."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


# The columns of `published_claims.csv` and `published.csv`.
_OF_CLAIMS = [
    *("claim", "verdict", "measured", "reason", "kind", "quantity"),
    *("impl", "over", "at", "against", "wanted", "within", "source"),
]
_OF_FIGURES = [
    *("table", "quantity", "unit", "impl", "over", "at", "published", "published_ended", "measured", "measured_lo"),
    *("measured_hi", "measured_ended", "ratio", "case", "hardware", "source", "second_hand"),
]


def _claim_row(judged: JudgedClaim) -> dict[str, object]:
    claim = judged.claim
    impl, over = claim.of
    return {
        **vars(claim),
        **vars(judged.judgement),
        "claim": claim.says,
        "kind": claim.kind,
        "impl": impl,
        "over": over,
        "at": size_text(claim.at),
        "against": size_text(claim.against),
        "wanted": " ".join(f"{number:g}" for number in claim.wanted),
    }


@dataclass(frozen=True)
class FigureComparison:
    """A published figure and its measurement in the case with the key `case`.

    The key is empty if no case of the run matches. `known` is None if no number was measured; `ended` then says why.
    """

    figure: Figure
    known: Known | None = None
    ended: str = NOT_MEASURED
    case: str = ""

    @property
    def ratio(self) -> float | None:
        """The measured value over the published one; None if either is missing."""
        if self.figure.value is None or self.known is None:
            return None
        return self.known[0] / self.figure.value


def figures_beside(paper: Paper, lines: Sequence[CaseResult]) -> list[FigureComparison]:
    """Match every figure of the paper with a measurement, in the paper's order.

    If several cases match, the widest is taken. Ties go to the larger batch size.
    """
    comparisons = []
    for figure in paper.figures:
        alike = measured_value(lines, figure.quantity, figure.of, figure.over, figure.at)
        best = max(alike, key=lambda value: (value.line.d_model, value.line.batch_size), default=None)
        if best is None:
            comparisons.append(FigureComparison(figure))
        else:
            comparisons.append(FigureComparison(figure, best.known, best.ended, best.line.case.key))
    return comparisons


def _published_row(comparison: FigureComparison) -> dict[str, object]:
    figure = comparison.figure
    return {
        **vars(figure),
        "unit": "" if figure.over else QUANTITIES[figure.quantity].unit,
        "impl": figure.of,
        "at": size_text(figure.at),
        "published": figure.value,
        "published_ended": figure.ended,
        **dict(zip(("measured", "measured_lo", "measured_hi"), comparison.known or (None, None, None), strict=True)),
        "measured_ended": comparison.ended,
        "ratio": comparison.ratio,
        "case": comparison.case,
    }


@dataclass(frozen=True)
class PublishedFindings:
    """A paper, its published figures beside the measured ones, and the verdicts on its claims (see `MoreFindings`)."""

    paper: Paper
    figures: list[FigureComparison]
    claims: list[JudgedClaim]
    title = "Published"
    kind = "published claim"

    @property
    def sentences(self) -> list[str]:
        """How many claims hold, and a sentence for each."""
        counted = claims.verdict_count([judged.judgement.verdict for judged in self.claims], " of the paper")
        return [counted, *map(_claim_sentence, self.claims)]

    @property
    def tables(self) -> dict[str, "pd.DataFrame"]:
        """The tables to write, by the names of their files."""
        import pandas as pd

        return {
            "published.csv": pd.DataFrame(map(_published_row, self.figures), columns=_OF_FIGURES),
            "published_claims.csv": pd.DataFrame(map(_claim_row, self.claims), columns=_OF_CLAIMS),
        }

    def section(self, hardware: str) -> Section:
        """The paper's setting, its claims with their verdicts, and its figures beside the measured ones."""
        paper = self.paper
        about = [
            paper.source.rstrip("."),
            f"Published: {'; on '.join(filter(None, (paper.setting.rstrip('.'), paper.hardware)))}",
            f"Measured on {hardware or 'a machine that is not known'}"
            + (f". {paper.differs.rstrip('.')}" if paper.differs else "")
            + (f". Changed settings: {' '.join(paper.changed)}" if paper.changed else ""),
            *(note.rstrip(".") for note in paper.notes),
        ]
        kinds = {"verdict": "verdict", "measured": "formula", "why": "why", "source": "why"}
        of = attrgetter("claim.says", "judgement.verdict", "judgement.measured", "judgement.reason", "claim.source")
        return Section(
            f"Published, and measured: {paper.name}" + (f" (scale={paper.scale})" if paper.scale else ""),
            [
                *(Sentence(f"{sentence}.") for sentence in about if sentence),
                Sentence(self.sentences[0]),
                Table({"the paper's claim": "claim", **kinds}, [*map(of, self.claims)]).without_empty("source"),
                *_figure_tables(self.figures),
            ],
        )


def published_findings(config: Mapping[str, Any], lines: Sequence[CaseResult]) -> PublishedFindings | None:
    """Return what a run says about the paper of its configuration; None without one.

    Raises UsageError if the published part of the configuration cannot be read.
    """
    paper = paper_of(config)
    if paper is None:
        return None
    return PublishedFindings(paper, figures_beside(paper, lines), judge_claims(paper, lines))


def _figure_tables(figures: Iterable[FigureComparison]) -> Iterator[Table]:
    """A table for each published table and quantity, with the source and the published hardware."""
    columns = {"layer": "layer", "at": "at", "published": "n", "measured": "n", "measured / published": "n soft"}
    groups = grouped(figures, attrgetter("figure.table", "figure.quantity"))
    for (name, what), group in groups.items():
        first, quantity = group[0].figure, QUANTITIES[what]
        unit = f" [{quantity.unit}]" if quantity.unit and not first.over else ""
        parts = {"": first.source, "on ": first.hardware, "second-hand: ": first.second_hand}
        origin = "; ".join(f"{says}{part}" for says, part in parts.items() if part)
        rows = [_figure_row(comparison) for comparison in group]
        yield Table(columns, rows, title=f"{name}: {quantity.title}{unit}", about=origin)


def _claim_sentence(judged: JudgedClaim) -> str:
    """A claim and its verdict: `Confirmed: 20 times less memory; measured 18.2: 20.4 ± 25 %.`"""
    judgement = judged.judgement
    measured = f"measured {judgement.measured}: " if judgement.measured else ""
    return f"{judgement.verdict.capitalize()}: {judged.claim.says.rstrip('.')}; {measured}{judgement.reason}."


def _figure_row(comparison: FigureComparison) -> Row:
    figure, ratio = comparison.figure, comparison.ratio
    layer = f"{figure.of} / {figure.over}" if figure.over else figure.of
    symbols = {axis: letter for letter, axis in LETTERS.items()}
    where = ", ".join(
        f"{symbols.get(axis, axis)} = {' '.join(map(str, values))}" for axis, values in figure.differing.items()
    )
    published = figure.ended if figure.value is None else f"{figure.value:,.10g}"  # with all the digits published
    measured = _figure_number(comparison.known[0]) if comparison.known else comparison.ended
    return (layer, where, published, measured, formatting.if_known(ratio, _figure_number))


def _figure_number(value: float) -> str:
    """Three significant digits, and always all digits before the decimal point."""
    return formatting.count(value) if value >= 1000 else formatting.three(value) if value >= 1 else f"{value:.3g}"
