"""The results of a verification, in lines that fit a terminal of 80 columns and the log of a job."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.case import FAILURES, Case
from harness.report.escaped import printable

WIDTH = 80
# Names up to this length share a column. A longer one has a line of its own.
_MOST_NAME = 28
_INDENT = "    "
_FINE = ("ok", "unsupported")

Found = Sequence[tuple[Case, Mapping[str, Any]]]


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


def summary(found: Found) -> Iterator[str]:
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


def each(found: Found) -> Iterator[str]:
    """Lines about every case, with its errors or the reason for having none."""
    for case, outcome in found:
        yield from _in_full(case, outcome)


def _in_full(case: Case, outcome: Mapping[str, Any]) -> Iterator[str]:
    yield from _wrapped(f"{_named(case)}: {outcome['status']}")
    yield from _wrapped(_detail(outcome), _INDENT)


def _named(case: Case) -> str:
    """The case, with the axes that its name in tables leaves out because tables show them elsewhere."""
    padded = f" real_share={case.real_share:g}" if case.mask == "padding" else ""
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
        yield from _wrapped(f"Without a reference, held against {against}: {', '.join(names)}.")


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Wrap the text to lines of at most 80 columns. A longer word exceeds that: no name is cut."""
    more = indent or _INDENT
    return textwrap.wrap(
        text, WIDTH, initial_indent=indent, subsequent_indent=more, break_long_words=False, break_on_hyphens=False
    )
