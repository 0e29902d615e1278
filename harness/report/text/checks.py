"""Checks as text: the results of a verification, and a paper's published figures beside the measured ones.

Each sentence is written here once, and the reports show it in several places.
"""

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness import formatting
from harness.analysis.analyse import PublishedFindings
from harness.analysis.claims_table import VERDICTS
from harness.analysis.papers import QUANTITIES
from harness.analysis.published_claims import NOT_MEASURED, FigureComparison, JudgedClaim
from harness.case import FAILURES, Case
from harness.formatting import printable

# Lines fit a terminal of 80 columns and the log of a job.
WIDTH = 80
# Names up to this length share a column. A longer one has a line of its own.
_MOST_NAME = 28
_INDENT = "    "
_FINE = ("ok", "unsupported")

VerificationResult = Sequence[tuple[Case, Mapping[str, Any]]]


@dataclass(frozen=True)
class _Error:
    """One error of a case, and its tolerance."""

    value: float
    tolerance: float

    @property
    def share(self) -> float:
        return self.value / self.tolerance

    def __str__(self) -> str:
        return f"{self.value:.1e} of {self.tolerance:.1e}"


def verification_summary(found: VerificationResult) -> Iterator[str]:
    """Lines about the whole verification.

    First come the failed cases in full, then a line for each layer. Notes follow on what layers without a reference
    were compared with.
    """
    bad = [(case, outcome) for case, outcome in found if outcome["status"] not in _FINE]
    for case, outcome in bad:
        yield from _in_full(case, outcome)
    if bad:
        yield ""
    of_impl: dict[str, list[Mapping[str, Any]]] = {}
    for case, outcome in found:
        of_impl.setdefault(printable(case.impl), []).append(outcome)
    column = max((len(name) for name in of_impl if len(name) <= _MOST_NAME), default=0)
    for name, outcomes in of_impl.items():
        yield from _layer(name, outcomes, column)
    yield from _notes(of_impl)


def verification_lines(found: VerificationResult) -> Iterator[str]:
    """Lines about every case, with its errors or the reason for having none."""
    for case, outcome in found:
        yield from _in_full(case, outcome)


def _in_full(case: Case, outcome: Mapping[str, Any]) -> Iterator[str]:
    yield from _wrapped(f"{_named(case)}: {outcome['status']}")
    yield from _wrapped(_detail(outcome), _INDENT)


def _named(case: Case) -> str:
    """The case, with the axes that its name in tables leaves out because tables show them elsewhere."""
    padded = f" padding_fraction={case.padding_fraction:g}" if case.mask == "padding" else ""
    device = f" {case.device}" if case.device != "cpu" else ""
    return printable(f"{case}{padded} b={case.batch_size} {case.mode} {case.dtype}{device}")


def _detail(outcome: Mapping[str, Any]) -> str:
    if outcome["status"] != "ok":
        return printable(" ".join(str(outcome["reason"]).split()))
    errors = [f"{name} {error}" for name, error in _errors(outcome).items()]
    return f"{', '.join(errors) or 'no error known'}, against {outcome['against']}"


def _errors(outcome: Mapping[str, Any]) -> dict[str, _Error]:
    tolerance = outcome["tolerance"]
    errors = {}
    if outcome["output_error"] is not None:
        errors["output"] = _Error(outcome["output_error"], tolerance)
    if "gradient_error" in outcome:
        # If rounding may flip some gradients, their tolerance is larger than the output's.
        errors["gradients"] = _Error(outcome["gradient_error"], outcome.get("gradient_tolerance", tolerance))
    return errors


def _layer(name: str, outcomes: Sequence[Mapping[str, Any]], column: int) -> Iterator[str]:
    """A layer's line: `attention.naive   6 ok, 2 unsupported; largest error 2.1e-07 of 1.9e-06`."""
    ends = Counter(outcome["status"] for outcome in outcomes)
    known = dict.fromkeys((*_FINE, *FAILURES))
    counts = ", ".join(f"{ends[status]} {status}" for status in known if ends[status])
    errors = [error for outcome in outcomes if outcome["status"] == "ok" for error in _errors(outcome).values()]
    largest = max(errors, key=lambda error: error.share, default=None)
    said = counts if largest is None else f"{counts}; largest error {largest}"
    line = f"{name:<{column}}  {said}"
    if len(name) <= column and len(line) <= WIDTH:
        yield line
    else:
        yield name
        yield from _wrapped(said, _INDENT)


def _notes(of_impl: Mapping[str, Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Notes that explain the errors: what they are relative to, and which layers have no reference."""
    without: dict[str, list[str]] = {}
    for name, outcomes in of_impl.items():
        for against in dict.fromkeys(outcome["against"] for outcome in outcomes if outcome["status"] == "ok"):
            if " " in against:  # a phrase, not the name of a reference class
                without.setdefault(against, []).append(name)
    if any(outcome["status"] == "ok" for outcomes in of_impl.values() for outcome in outcomes):
        yield ""
        yield "An error is relative to the reference's norm, beside what is tolerated."
    for against, names in without.items():
        yield from _wrapped(f"Without a reference, compared with {against}: {', '.join(names)}.")


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Wrap the text to lines of at most 80 columns. A longer word exceeds that: no name is cut."""
    more = indent or _INDENT
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=more, break_long_words=False, break_on_hyphens=False
    )


# The axes of a figure have the same symbols as in every other text.
_SYMBOLS = {"seq_len": "n", "d_model": "d", "num_heads": "h", "batch_size": "b"}


@dataclass(frozen=True)
class FigureRow:
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
    rows: tuple[FigureRow, ...]

    @property
    def origin(self) -> str:
        """Source and hardware: `figure 4; on NVIDIA A100; second-hand: from a summary`."""
        parts = {"": self.source, "on ": self.hardware, "second-hand: ": self.second_hand}
        return "; ".join(f"{says}{part}" for says, part in parts.items() if part)


def figures_title(published: PublishedFindings) -> str:
    """The paper's name and scale: `flashattention1 (scale=cpu)`."""
    paper = published.paper
    return f"{paper.name} (scale={paper.scale})" if paper.scale else paper.name


def figures_about(published: PublishedFindings, hardware: str) -> list[str]:
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


def figure_tables(published: PublishedFindings) -> list[FigureTable]:
    """Group the figures by published table and quantity."""
    groups: dict[tuple[str, str], list[FigureComparison]] = {}
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


def claim_count(found: Sequence[JudgedClaim]) -> str:
    """`Of 5 claims of the paper 4 confirmed, 1 refuted.`"""
    numbers = [(sum(one.judgement.verdict == kind for one in found), kind) for kind in VERDICTS]
    said = [f"{number} {kind}" for number, kind in numbers if number]
    return f"Of {len(found)} claims of the paper {', '.join(said)}." if said else ""


def claim_sentence(one: JudgedClaim) -> str:
    """A claim and its verdict: `Confirmed: 20 times less memory; measured 18.2: 20.4 ± 25 %.`"""
    judgement = one.judgement
    measured = f"measured {judgement.measured}: " if judgement.measured else ""
    return f"{judgement.verdict.capitalize()}: {one.claim.says.rstrip('.')}; {measured}{judgement.reason}."


def _row(one: FigureComparison) -> FigureRow:
    figure, ratio = one.figure, one.ratio
    layer = f"{figure.of} / {figure.over}" if figure.over else figure.of
    where = ", ".join(f"{_SYMBOLS.get(axis, axis)} = {' '.join(map(str, held))}" for axis, held in figure.told.items())
    published = figure.ended if figure.value is None else f"{figure.value:,.10g}"  # with all the digits published
    return FigureRow(layer, where, published, _measured(one), figure_number(ratio) if ratio is not None else "")


def _measured(one: FigureComparison) -> str:
    if one.measured is None:
        return NOT_MEASURED
    if one.measured.known is None:
        return one.measured.ended
    return figure_number(one.measured.known[0])


def figure_number(value: float) -> str:
    """Three significant digits, and always all digits before the decimal point."""
    return formatting.count(value) if value >= 1000 else formatting.three(value) if value >= 1 else f"{value:.3g}"
