"""A verdict on each claim of a paper. Claims are ratios or shapes, which carry over between machines; times do not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.case import AXES
from harness.findings.claimed import CONFIRMED, REFUTED, UNDETERMINED, Judgement
from harness.findings.papers.matching import measured
from harness.findings.papers.paper import Claim, Paper, written
from harness.findings.papers.quantities import Known
from harness.scaling.crossover import Gap, overtaking
from harness.summary import Line

if TYPE_CHECKING:
    import pandas as pd


_Points = Sequence[tuple[Line, Known]]


@dataclass(frozen=True)
class Judged:
    """A claim and the judgement on it."""

    claim: Claim
    judgement: Judgement


def judged(paper: Paper, lines: Sequence[Line]) -> list[Judged]:
    """Judge every claim of the paper, in the paper's order."""
    return [Judged(claim, _judge(claim, lines)) for claim in paper.claims]


def _judge(claim: Claim, lines: Sequence[Line]) -> Judgement:
    found = measured(lines, claim.quantity, claim.of, claim.over, claim.at, claim.against)
    if not found:
        return Judgement("", UNDETERMINED, "no case of it was measured")
    known: _Points = [(one.line, one.known) for one in found if one.known is not None]
    if not known:
        return Judgement("", UNDETERMINED, f"no number was measured: {found[0].ended}")
    known = _along_n(known) if claim.kind in ("exponent", "overtakes") else _widest(known)
    judge = {"about": _about, "at_least": _bound, "at_most": _bound, "exponent": _exponent, "overtakes": _overtakes}
    return judge[claim.kind](claim, known)


_OTHERS = tuple(axis for axis in AXES if axis not in ("impl", "seq_len"))


def _widest(points: _Points) -> _Points:
    """The points with the largest width and, of these, the most heads."""
    widest = max((line.d_model, line.num_heads) for line, _ in points)
    return [(line, known) for line, known in points if (line.d_model, line.num_heads) == widest]


def _along_n(points: _Points) -> _Points:
    """The longest row of points that differ only in n. Ties go to the larger width, then to more heads."""
    rows: dict[tuple[object, ...], list[tuple[Line, Known]]] = {}
    for line, known in points:
        rows.setdefault(tuple(getattr(line, axis) for axis in _OTHERS), []).append((line, known))
    return max(rows.values(), key=lambda row: (len(row), row[0][0].d_model, row[0][0].num_heads))


def _about(claim: Claim, points: _Points) -> Judgement:
    (wanted,) = claim.wanted
    least, most = wanted * (1 - claim.within), wanted * (1 + claim.within)
    return _within(points, least, most, f"{_number(wanted)} ± {100 * claim.within:.0f} %")


def _bound(claim: Claim, points: _Points) -> Judgement:
    (wanted,) = claim.wanted
    if claim.kind == "at_least":
        return _within(points, wanted, math.inf, f"{_number(wanted)} or more")
    return _within(points, -math.inf, wanted, f"{_number(wanted)} or less")


def _within(points: _Points, least: float, most: float, said: str) -> Judgement:
    """Judge whether all points lie between two bounds.

    The claim is confirmed if all intervals lie inside, and refuted if one lies outside.
    """
    text = ", ".join(_at(line, known, several=len(points) > 1) for line, known in points)
    outside = [(line, known) for line, known in points if known[2] < least or known[1] > most]
    if outside:
        line, known = outside[0]
        return Judgement(text, REFUTED, f"at n = {line.seq_len} it is {_number(known[0])}, and not {said}")
    open_ = [line for line, known in points if not least <= known[1] <= known[2] <= most]
    if open_:
        return Judgement(
            text, UNDETERMINED, f"the interval at n = {open_[0].seq_len} holds numbers that are not {said}"
        )
    return Judgement(text, CONFIRMED, f"{said}{' at every n' if len(points) > 1 else ''}")


def _exponent(claim: Claim, points: _Points) -> Judgement:
    by_n = {line.seq_len: known for line, known in points}
    if len(by_n) < 2:
        return Judgement("", UNDETERMINED, "n was not varied alone")
    small, large = sorted(by_n)[-2:]
    run = math.log(large / small)
    (v0, lo0, hi0), (v1, lo1, hi1) = by_n[small], by_n[large]
    if min(v0, lo0, v1, lo1) <= 0 or math.inf in (hi0, hi1):
        return Judgement("", UNDETERMINED, "one trial has no interval")
    down = math.hypot(math.log(v1 / lo1), math.log(hi0 / v0)) / run
    up = math.hypot(math.log(hi1 / v1), math.log(v0 / lo0)) / run
    value = math.log(v1 / v0) / run
    reach = f" ({value - down:.2f} to {value + up:.2f})" if down + up > 0.005 else ""
    text = f"n^{value:.2f}{reach} from n = {small} to {large}"
    (wanted,) = claim.wanted
    said = f"{wanted:g} ± {claim.within:g}"
    if value + up < wanted - claim.within or value - down > wanted + claim.within:
        return Judgement(text, REFUTED, f"the power is not {said}")
    if value - down >= wanted - claim.within and value + up <= wanted + claim.within:
        return Judgement(text, CONFIRMED, f"the power is {said}")
    return Judgement(text, UNDETERMINED, f"the power may be {said}, and may be another")


def _overtakes(claim: Claim, points: _Points) -> Judgement:
    gaps = [Gap(line.seq_len, *(math.log(end) if end > 0 else -math.inf for end in known)) for line, known in points]
    over, (least, most) = overtaking(gaps), claim.wanted
    said = f"from an n between {least:.0f} and {most:.0f} on" if least > 0 else f"from n = {most:.0f} on at the latest"
    largest, smallest = gaps[-1].n, gaps[0].n
    if over.n == 0:  # it was above before the smallest n
        earlier = CONFIRMED if least <= 0 else REFUTED if smallest <= least else UNDETERMINED
        verdict = earlier if smallest <= most else UNDETERMINED
        return Judgement(f"at every n measured, from {smallest:.0f} on", verdict, f"the paper has it {said}")
    if over.n is not None and over.lo is not None and over.hi is not None:
        text = f"from n = {over.n:.0f} ({over.lo:.0f} to {over.hi:.0f}) on"
        outside = over.lo > most or over.hi < least
        inside = over.lo >= least and over.hi <= most
        verdict = REFUTED if outside else CONFIRMED if inside else UNDETERMINED
        return Judgement(text, verdict, f"the paper has it {said}")
    if over.lo == largest:
        verdict = REFUTED if largest >= most else UNDETERMINED
        return Judgement(f"not below n = {largest:.0f}", verdict, f"the paper has it {said}")
    return Judgement("undecided: the intervals overlap", UNDETERMINED, f"the paper has it {said}")


def _at(line: Line, known: Known, several: bool) -> str:
    value, lo, hi = known
    reach = f" ({_number(lo)} to {_number(hi)})" if hi - lo > 0.005 * value else ""
    return f"{_number(value)}{reach}" + (f" at n = {line.seq_len}" if several else "")


def _number(value: float) -> str:
    """Format a number with three significant digits, or as an integer from 100 on."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


COLUMNS = (
    "claim",
    "verdict",
    "measured",
    "reason",
    "kind",
    "quantity",
    "impl",
    "over",
    "at",
    "against",
    "wanted",
    "within",
    "source",
)


def judged_table(found: Sequence[Judged]) -> "pd.DataFrame":
    """Return the verdicts as a tidy DataFrame: `published_claims.csv`."""
    import pandas as pd

    rows = [
        {
            **vars(one.judgement),
            "claim": one.claim.says,
            "kind": one.claim.kind,
            "quantity": one.claim.quantity,
            "impl": one.claim.of,
            "over": one.claim.over,
            "at": written(one.claim.at),
            "against": written(one.claim.against),
            "wanted": " ".join(f"{number:g}" for number in one.claim.wanted),
            "within": one.claim.within,
            "source": one.claim.source,
        }
        for one in found
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))
