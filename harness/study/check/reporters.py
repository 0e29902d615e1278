"""A gate's outcomes for people and machines: shown on the terminal, and written as Markdown, JUnit XML and JSON."""

import argparse
import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol
from xml.etree import ElementTree

from rich.console import Console

from harness.core.model.errors import UsageError, usage_error_about
from harness.core.model.formatting import printable
from harness.study.report.document import Cell, Part, Row, Section, Sentence, Table, grouped, markdown, show

from .check_rules import Outcome, Verdict, counted_outcomes, exit_status, ordered_outcomes

OUTCOME_SCHEMA = 1
SUMMARY = "GITHUB_STEP_SUMMARY"
COLORS = {Verdict.WORSE: "bad", Verdict.BETTER: "good", Verdict.UNMEASURED: "unmeasured"}
# Characters that XML 1.0 does not allow, not even escaped.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENT = {Verdict.WORSE: "failure", Verdict.UNMEASURED: "error", Verdict.UNDECIDED: "skipped"}
_COUNT = {"failure": "failures", "error": "errors", "skipped": "skipped"}
# GitHub limits a job summary to one mebibyte and a comment to 65,536 characters. The JSON file holds all outcomes.
_MOST = 100
_MOST_EXPLAINED = 5  # Explanations with all rows; later ones have a few.
_COLUMNS = dict.fromkeys(("verdict", "layer and size", "quantity", "was", "is", "why"), "")


class Explanation(Protocol):
    """Where two sides differ, as a report shows it."""

    def section(self, brief: bool = False) -> Section:
        """The explanation under its title, for Markdown: all of it, or a few rows."""

    def as_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""


@dataclass(frozen=True)
class GateReport:
    """The outcomes of a gate, to be shown and written.

    `title` names the gate and its subject, for example `check baseline.json`. `remarks` are sentences beside the
    outcomes. `properties` describes the run, for example torch's version. `explanations` tell where sides differ. With
    `nothing_due`, a report without outcomes passes. `advice` tells how to decide what is undecided.
    """

    title: str
    outcomes: Sequence[Outcome]
    remarks: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    explanations: Sequence[Explanation] = ()
    nothing_due: bool = False
    advice: str = ""

    @property
    def exit_status(self) -> int:
        """The exit status that follows from the outcomes."""
        return 0 if self.nothing_due and not self.outcomes else exit_status(self.outcomes)

    def as_json(self) -> str:
        """The outcomes as JSON for other programs: the worst first, and the exit status that follows from them."""
        ordered = ordered_outcomes(self.outcomes)
        content = {
            "schema": OUTCOME_SCHEMA,
            "title": self.title,
            "exit_status": self.exit_status,
            "properties": dict(self.properties),
            "remarks": list(self.remarks),
            "outcomes": [asdict(outcome) | {"verdict": outcome.verdict.outcome} for outcome in ordered],
            "explanations": [explanation.as_dict() for explanation in self.explanations],
        }
        # A lone surrogate, from a path that is not UTF-8, stays an escape sequence.
        return json.dumps(content, ensure_ascii=True) + "\n"

    def as_junit(self) -> str:
        """The outcomes as JUnit XML, as GitHub, GitLab and Jenkins read it: one test case per outcome.

        A regression is a failure, an unmeasured outcome an error, an undecided one skipped.
        """
        elements = Counter(_ELEMENT.get(outcome.verdict) for outcome in self.outcomes)
        counts = {"tests": str(elements.total())} | {name: str(elements[element]) for element, name in _COUNT.items()}
        root = ElementTree.Element("testsuites", {"name": _xml(self.title), **counts, "time": "0"})
        suite = ElementTree.SubElement(root, "testsuite", root.attrib)
        if self.properties:
            properties = ElementTree.SubElement(suite, "properties")
            for name, value in self.properties.items():
                ElementTree.SubElement(properties, "property", {"name": _xml(name), "value": _xml(value)})
        for outcome in self.outcomes:
            name, verdict = f"{outcome.subject} {outcome.quantity}", outcome.verdict.outcome
            about = {"classname": _xml(outcome.impl), "name": _xml(name), "time": "0"}
            case = ElementTree.SubElement(suite, "testcase", about)
            element = _ELEMENT.get(outcome.verdict)
            if element:
                why = outcome.reason or f"{outcome.was} → {outcome.now}"
                detail = ElementTree.SubElement(case, element, {"message": _xml(why), "type": verdict})
                detail.text = _xml(f"{name}: {why}")
            elif outcome.reason:
                ElementTree.SubElement(case, "system-out").text = _xml(f"{verdict}: {outcome.reason}")
        ElementTree.indent(root)
        body = ElementTree.tostring(root, encoding="unicode")
        return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'

    def as_markdown(self) -> str:
        """The outcomes as Markdown for a job summary or a pull request: problems first, passed outcomes folded away."""
        passed = [outcome for outcome in self.outcomes if outcome.verdict is Verdict.EQUIVALENT]
        heading, lede = self.title, counted_outcomes(self.outcomes)
        undecided = [outcome for outcome in self.outcomes if outcome.verdict is Verdict.UNDECIDED and outcome.now]
        # Something was measured and not decided, and nothing is known to be wrong.
        if undecided and self.exit_status == 0:
            heading = f"Undecided: {self.title}"
            lede += self.advice
        explained = [
            explanation.section(brief=number >= _MOST_EXPLAINED) for number, explanation in enumerate(self.explanations)
        ]
        parts = [Sentence(lede, "lede"), *_listed(self._not_passed()), self.remarks, *explained]
        text = markdown(Section(heading, parts), level=2)
        if passed:
            folded = markdown(Section("", _listed(passed)))
            text += f"\n<details><summary>{len(passed)} passed</summary>\n\n{folded}\n</details>\n"
        # A workflow finds its comment of an earlier push by this line.
        return f"{text}\n<!-- attn-harness: {self.title.partition(' ')[0]} -->\n"

    def show(self, console: Console) -> None:
        """Print what did not pass, one row per impl, quantity and verdict, then the remarks and the counts."""
        rows: list[Row] = []
        alike = grouped(self._not_passed(), lambda outcome: (outcome.verdict, outcome.impl, outcome.quantity))
        for group in alike.values():
            # A group's last outcome has the largest sizes, where a difference shows most.
            shown = group[-1]
            more = f" (and {len(group) - 1} more)" if len(group) > 1 else ""
            why = f"{shown.reason or f'{shown.was} → {shown.now}'}{more}"
            verdict = Cell(shown.verdict.outcome, COLORS.get(shown.verdict, "open"))
            rows.append((verdict, shown.impl, shown.quantity, why))
        table = Table(dict.fromkeys(("verdict", "layer", "quantity", "why"), ""), rows, title=self.title)
        counted = f"{self.title}: {counted_outcomes(self.outcomes)}."
        show([*([table] if rows else []), *self.remarks, counted], console)

    def _not_passed(self) -> list[Outcome]:
        return [outcome for outcome in ordered_outcomes(self.outcomes) if outcome.verdict is not Verdict.EQUIVALENT]

    def publish(self, options: argparse.Namespace) -> None:
        """Write the files named in `options`, and append to GitHub's job summary if the job has one.

        Raises UsageError if a file cannot be written.
        """
        for flag, path in _requested_outputs(options):
            _write(path, _FORMATS[flag][1](self))
        if summary := os.environ.get(SUMMARY):
            _write(Path(summary), self.as_markdown(), "a")

    def write(self, stem: Path) -> None:
        """Write all three files: `stem` with .md, .xml and .json. Raises UsageError if one cannot be written."""
        for ending, text in _FORMATS.values():
            _write(stem.with_suffix(ending), text(self))


# The formats by their flags: the ending of the file, and its text.
_FORMATS = {
    "markdown": (".md", GateReport.as_markdown),
    "junit": (".xml", GateReport.as_junit),
    "json": (".json", GateReport.as_json),
}


def check_outputs(options: argparse.Namespace) -> None:
    """Raise UsageError if an output file cannot be written: before minutes of measuring, not after."""
    summary = os.environ.get(SUMMARY)
    named = [(f"--{flag} {path}", path) for flag, path in _requested_outputs(options)]
    if summary:
        named.append((f"${SUMMARY} {summary}", Path(summary)))
    for name, path in named:
        if path.is_dir():
            raise UsageError(f"{name}: it is a directory, name a file")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"{name}: there is no directory {path.absolute().parent}")
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise UsageError(f"{name}: it cannot be written to")


def _requested_outputs(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    return ((flag, path) for flag in _FORMATS if (path := getattr(options, flag)) is not None)


def _write(path: Path, text: str, mode: str = "w") -> None:
    with usage_error_about(path), path.open(mode, encoding="utf-8", errors="replace") as file:
        file.write(text)


def _xml(text: str) -> str:
    """The text on one line, with U+FFFD for every character that XML does not allow."""
    return _NO_XML.sub("\ufffd", printable(text))


def _listed(outcomes: Sequence[Outcome]) -> list[Part]:
    rows = [(o.verdict.outcome, o.subject, o.quantity, o.was, o.now, o.reason) for o in outcomes[:_MOST]]
    more = len(outcomes) - _MOST
    return [Table(_COLUMNS, rows), Sentence(f"… and {more} more." if more > 0 else "")]
