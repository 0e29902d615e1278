"""A paper's published figures beside the measured ones, as text.

Written once, shown in several places.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.findings.findings import Published
from harness.findings.papers.claims import Judged
from harness.findings.papers.figures import NOT_MEASURED, Beside
from harness.findings.papers.quantities import QUANTITIES
from harness.findings.verdicts import VERDICTS
from harness.report import units

# The axes of a figure have the same symbols as in every other text.
_SYMBOLS = {"seq_len": "n", "d_model": "d", "num_heads": "h", "batch_size": "b"}


@dataclass(frozen=True)
class Row:
    """One figure: its layer, its place, the published value, the measured one, and measured over published."""

    layer: str
    where: str
    published: str
    measured: str
    ratio: str


@dataclass(frozen=True)
class FigureTable:
    """One published table: its quantity, the hardware it was measured on, its source, and its rows."""

    title: str
    quantity: str
    hardware: str
    source: str
    second_hand: str
    rows: tuple[Row, ...]

    @property
    def origin(self) -> str:
        """Source and hardware: `figure 4; on NVIDIA A100; second-hand: from a summary`."""
        parts = {"": self.source, "on ": self.hardware, "second-hand: ": self.second_hand}
        return "; ".join(f"{says}{part}" for says, part in parts.items() if part)


def title(published: Published) -> str:
    """The paper's name and scale: `flashattention1 (scale=cpu)`."""
    paper = published.paper
    return f"{paper.name} (scale={paper.scale})" if paper.scale else paper.name


def about(published: Published, hardware: str) -> list[str]:
    """Sentences about the paper, its hardware, the hardware of this run, and the differences between them."""
    paper = published.paper
    return [
        *([f"{paper.source.rstrip('.')}."] if paper.source else []),
        *([f"Published: {'; on '.join(filter(None, (paper.setting.rstrip('.'), paper.hardware)))}."]),
        f"Measured on {hardware or 'a machine that is not known'}."
        + (f" {paper.differs.rstrip('.')}." if paper.differs else "")
        + (f" But for what was asked for otherwise: {' '.join(paper.changed)}." if paper.changed else ""),
        *(f"{note.rstrip('.')}." for note in paper.notes),
    ]


def tables(published: Published) -> list[FigureTable]:
    """Group the figures by published table and quantity."""
    groups: dict[tuple[str, str], list[Beside]] = {}
    for one in published.figures:
        groups.setdefault((one.figure.table, one.figure.quantity), []).append(one)
    found = []
    for (name, quantity), group in groups.items():
        first = group[0].figure
        unit = f" [{QUANTITIES[quantity].unit}]" if QUANTITIES[quantity].unit and not first.over else ""
        rows = tuple(map(_row, group))
        quantity = QUANTITIES[quantity].title + unit
        found.append(FigureTable(name, quantity, first.hardware, first.source, first.second_hand, rows))
    return found


def count(found: Sequence[Judged]) -> str:
    """`Of 5 claims of the paper 4 confirmed, 1 refuted.`"""
    numbers = [(sum(one.judgement.verdict == kind for one in found), kind) for kind in VERDICTS]
    said = [f"{number} {kind}" for number, kind in numbers if number]
    return f"Of {len(found)} claims of the paper {', '.join(said)}." if said else ""


def sentence(one: Judged) -> str:
    """A claim and its verdict: `Confirmed: 20 times less memory; measured 18.2: 20.4 ± 25 %.`"""
    judgement = one.judgement
    measured = f"measured {judgement.measured}: " if judgement.measured else ""
    return f"{judgement.verdict.capitalize()}: {one.claim.says.rstrip('.')}; {measured}{judgement.reason}."


def _row(one: Beside) -> Row:
    figure, ratio = one.figure, one.ratio
    layer = f"{figure.of} / {figure.over}" if figure.over else figure.of
    where = ", ".join(f"{_SYMBOLS.get(axis, axis)} = {' '.join(map(str, held))}" for axis, held in figure.told.items())
    published = figure.ended if figure.value is None else f"{figure.value:,.10g}"  # with all the digits published
    return Row(layer, where, published, _measured(one), number(ratio) if ratio is not None else "")


def _measured(one: Beside) -> str:
    if one.measured is None:
        return NOT_MEASURED
    if one.measured.known is None:
        return one.measured.ended
    return number(one.measured.known[0])


def number(value: float) -> str:
    """Three significant digits, and always all digits before the decimal point."""
    return units.count(value) if value >= 1000 else units.three(value) if value >= 1 else f"{value:.3g}"
