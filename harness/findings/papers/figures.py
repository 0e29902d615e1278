"""Each published figure beside the measured one: `published.csv`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.findings.papers.matching import Measured, measured
from harness.findings.papers.paper import Figure, Paper, written
from harness.findings.papers.quantities import QUANTITIES
from harness.summary import Line

if TYPE_CHECKING:
    import pandas as pd

NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Beside:
    """A published figure and its measurement; `measured` is None if no case of the run matches."""

    figure: Figure
    measured: Measured | None

    @property
    def ratio(self) -> float | None:
        """The measured value over the published one; None if either is missing."""
        if self.figure.value is None or self.measured is None or self.measured.known is None:
            return None
        return self.measured.known[0] / self.figure.value


def beside(paper: Paper, lines: Sequence[Line]) -> list[Beside]:
    """Match every figure of the paper with a measurement, in the paper's order.

    If several cases match, the widest is taken. Ties go to the larger batch size.
    """
    found = []
    for figure in paper.figures:
        alike = measured(lines, figure.quantity, figure.of, figure.over, figure.at)
        best = max(alike, key=lambda one: (one.line.d_model, one.line.batch_size), default=None)
        found.append(Beside(figure, best))
    return found


COLUMNS = (
    *("table", "quantity", "unit", "impl", "over", "at", "published", "published_ended", "measured", "measured_lo"),
    *("measured_hi", "measured_ended", "ratio", "case", "hardware", "source", "second_hand"),
)


def published_table(found: Sequence[Beside]) -> "pd.DataFrame":
    """Return the figures as a tidy DataFrame. For a case without a number, `measured_ended` says how it ended."""
    import pandas as pd

    return pd.DataFrame([_row(one) for one in found], columns=list(COLUMNS))


def _row(one: Beside) -> dict[str, object]:
    figure, line = one.figure, one.measured
    known = line.known if line is not None else None
    return {
        "table": figure.table,
        "quantity": figure.quantity,
        "unit": "" if figure.over else QUANTITIES[figure.quantity].unit,
        "impl": figure.of,
        "over": figure.over,
        "at": written(figure.at),
        "published": figure.value,
        "published_ended": figure.ended,
        "measured": known[0] if known else None,
        "measured_lo": known[1] if known else None,
        "measured_hi": known[2] if known else None,
        "measured_ended": "" if known else line.ended if line is not None else NOT_MEASURED,
        "ratio": one.ratio,
        "case": line.line.case.key if line is not None else "",
        "hardware": figure.hardware,
        "source": figure.source,
        "second_hand": figure.second_hand,
    }
