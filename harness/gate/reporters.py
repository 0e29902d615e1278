"""A gate's outcomes for people and machines: terminal tables, Markdown, JUnit XML and JSON."""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from xml.etree import ElementTree

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness import formatting
from harness.formatting import escape_markdown, printable
from harness.gate.check_rules import (
    IMPROVED,
    PASSED,
    REGRESSION,
    Outcome,
    counted_outcomes,
    exit_status,
    ordered_outcomes,
)
from harness.gate.compare import HELD, ComparedCase, Comparison, pair_label, ratio_text
from harness.stats.paired_verdicts import EQUIVALENT, FASTER, SLOWER, UNDECIDED, UNMEASURED

OUTCOME_SCHEMA = 1


def outcomes_json(
    title: str, outcomes: Sequence[Outcome], remarks: Sequence[str] = (), properties: Mapping[str, str] | None = None
) -> str:
    """The outcomes as JSON for other programs: the worst first, and the exit status that follows from them."""
    found = {
        "schema": OUTCOME_SCHEMA,
        "title": title,
        "exit_status": exit_status(outcomes),
        "properties": dict(properties or {}),
        "remarks": list(remarks),
        "outcomes": [asdict(outcome) for outcome in ordered_outcomes(outcomes)],
    }
    # A lone surrogate, from a path that is not UTF-8, stays an escape sequence.
    return json.dumps(found, indent=1, ensure_ascii=True) + "\n"


_COLOURS = {SLOWER: "red", UNMEASURED: "magenta", FASTER: "green", "more": "red", "less": "green"}


def show_comparison(title: str, comparison: Comparison, console: Console) -> None:
    """Print a comparison: a table with one row per pair, then sentences about the results.

    The column `could see` holds the smallest slow-down that this measurement would have detected.
    """
    table = Table(title=escape(printable(title)), box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.add_column("head", overflow="fold")
    for heading in ("time, and between", "could see", "memory", "flops"):
        table.add_column(heading, justify="right" if heading == "could see" else "left")
    for one in comparison.compared:
        # The impl gets its own line: on one line, impl and sizes are too wide for a narrow terminal.
        table.add_row(escape(printable(pair_label(one.head))).replace(" ", "\n", 1), *_comparison_cells(one))
    console.print(table)
    for sentence in comparison_sentences(comparison):
        console.print(escape(printable(sentence)), highlight=False)


def _comparison_cells(one: ComparedCase) -> tuple[str, ...]:
    seen = _least(one) if one.time is not None else ""
    amounts = [
        _coloured(amount.verdict, f"{amount.verdict} ×{amount.ratio:.3g}" if amount.ratio not in (None, 1) else None)
        for amount in (one.memory, one.flops)
    ]
    times = f"\n{ratio_text(one.time)}" if one.time is not None else ""
    return f"{_coloured(one.verdict)}{times}", seen, *amounts


def _coloured(verdict: str, text: str | None = None) -> str:
    colour = _COLOURS.get(verdict)
    said = escape(text or verdict)
    return f"[{colour}]{said}[/]" if colour else said


def _least(one: ComparedCase) -> str:
    least = one.time.smallest_detectable if one.time is not None else math.inf
    return formatting.share(least) if math.isfinite(least) else "nothing"


def comparison_sentences(comparison: Comparison) -> Iterator[str]:
    """Sentences to print below the table."""
    for one in comparison.compared:
        said = one.time.reason if one.time is not None else one.reason
        if one.verdict != EQUIVALENT:
            yield f"{pair_label(one.head)}: {one.verdict}: {said}."
    for case, control in comparison.controls:
        if control.failure is not None:
            yield f"The A/A control of {pair_label(case)} could not be measured: {control.failure}."
        if control.differs:
            found = control.evidence
            yield (
                f"The A/A control failed: {pair_label(case)}, measured against itself, came out "
                f"×{found.ratio:.3f} ({found.lo:.3f} to {found.hi:.3f}). Nothing is concluded of time: "
                "measure again when the machine is quiet."
            )
    if comparison.control == HELD:
        number = sum(control.held for _, control in comparison.controls)
        yield f"The A/A control held: {number} case{'s' if number > 1 else ''}, measured against the base once more."


# Characters that XML 1.0 does not allow, not even escaped.
_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENT = {REGRESSION: "failure", UNMEASURED: "error", UNDECIDED: "skipped"}
_COUNT = {"failure": "failures", "error": "errors", "skipped": "skipped"}


def junit_xml(suite: str, outcomes: Sequence[Outcome], properties: Mapping[str, str] | None = None) -> str:
    """The outcomes as JUnit XML, as GitHub, GitLab and Jenkins read it: one test case per outcome.

    A regression is a failure, an unmeasured outcome an error, an undecided one skipped. `suite` is the suite's name,
    for example `harness check`. `properties` describes the run, for example torch's version.
    """
    found = [_ELEMENT.get(outcome.verdict) for outcome in outcomes]
    counts = {"tests": str(len(outcomes))} | {name: str(found.count(one)) for one, name in _COUNT.items()}
    root = ElementTree.Element("testsuites", {"name": _xml(suite), **counts, "time": "0"})
    inside = ElementTree.SubElement(root, "testsuite", {"name": _xml(suite), **counts, "time": "0"})
    if properties:
        held = ElementTree.SubElement(inside, "properties")
        for name, value in properties.items():
            ElementTree.SubElement(held, "property", {"name": _xml(name), "value": _xml(value)})
    for outcome, element in zip(outcomes, found, strict=True):
        _testcase(inside, outcome, element)
    ElementTree.indent(root)
    body = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}\n'


def _testcase(inside: ElementTree.Element, outcome: Outcome, element: str | None) -> None:
    name = f"{outcome.subject} {outcome.quantity}"
    case = ElementTree.SubElement(
        inside, "testcase", {"classname": _xml(outcome.impl), "name": _xml(name), "time": "0"}
    )
    said = outcome.reason or f"{outcome.was} → {outcome.now}"
    if element is not None:
        told = ElementTree.SubElement(case, element, {"message": _xml(said), "type": outcome.verdict})
        told.text = _xml(f"{name}: {said}")
    elif outcome.reason:
        ElementTree.SubElement(case, "system-out").text = _xml(f"{outcome.verdict}: {outcome.reason}")


def _xml(text: str) -> str:
    """The text on one line, with U+FFFD for every character that XML does not allow."""
    return _NO_XML.sub("\ufffd", printable(text))


# GitHub limits a job summary to one mebibyte and a comment to 65,536 characters. The JSON file holds all outcomes.
_MOST = 100
_HEADINGS = ("verdict", "layer and size", "quantity", "was", "is", "why")


def outcomes_markdown(title: str, outcomes: Sequence[Outcome], remarks: Sequence[str] = ()) -> str:
    """The outcomes as Markdown for a job summary or a pull request: problems first, passed outcomes folded away.

    `remarks` are sentences printed below the table.
    """
    wanting = [outcome for outcome in ordered_outcomes(outcomes) if outcome.verdict != PASSED]
    passed = [outcome for outcome in outcomes if outcome.verdict == PASSED]
    parts = [
        f"## {escape_markdown(title)}",
        f"**{escape_markdown(counted_outcomes(outcomes))}**",
        _markdown_table(wanting),
        "\n".join(f"- {escape_markdown(remark)}" for remark in remarks),
    ]
    if passed:
        parts += [f"<details><summary>{len(passed)} passed</summary>", _markdown_table(passed), "</details>"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _markdown_table(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    rows = [(o.verdict, o.subject, o.quantity, o.was, o.now, o.reason) for o in outcomes[:_MOST]]
    lines = [_HEADINGS, (":---",) * len(_HEADINGS), *(tuple(map(escape_markdown, row)) for row in rows)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    more = len(outcomes) - _MOST
    return f"{table}\n\n… and {more} more." if more > 0 else table


# The environment variable with which GitHub names the job summary's file.


_VERDICT_COLOURS = {REGRESSION: "red", UNMEASURED: "magenta", IMPROVED: "green"}


def show_outcomes(title: str, outcomes: Sequence[Outcome], remarks: Sequence[str], console: Console) -> None:
    """Print what did not pass, one row per impl, quantity and verdict, then `remarks` and the counts."""
    groups = alike_outcomes([outcome for outcome in ordered_outcomes(outcomes) if outcome.verdict != PASSED])
    if groups:
        console.print(_outcome_table(title, groups))
    for remark in remarks:
        console.print(escape(printable(remark)), highlight=False)
    console.print(escape(printable(f"{title}: {counted_outcomes(outcomes)}.")), highlight=False)


def alike_outcomes(outcomes: Sequence[Outcome]) -> list[list[Outcome]]:
    """Group outcomes by verdict, impl and quantity, in the order of each group's first outcome."""
    groups: dict[tuple[str, str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.verdict, outcome.impl, outcome.quantity), []).append(outcome)
    return list(groups.values())


def _outcome_table(title: str, groups: Sequence[Sequence[Outcome]]) -> Table:
    table = Table(title=escape(printable(title)), box=SIMPLE_HEAD, pad_edge=False, title_justify="left")
    table.add_column("", no_wrap=True)
    table.add_column("layer", overflow="fold")
    table.add_column("quantity")
    table.add_column("why", overflow="fold", ratio=1)
    for group in groups:
        # A group's last outcome has the largest sizes, where a difference shows most.
        shown = group[-1]
        colour = _VERDICT_COLOURS.get(shown.verdict, "yellow")
        others = f" (and {len(group) - 1} more)" if len(group) > 1 else ""
        said = f"{shown.reason or f'{shown.was} → {shown.now}'}{others}"
        cells = (escape(printable(text)) for text in (shown.impl, shown.quantity, said))
        table.add_row(f"[{colour}]{shown.verdict}[/]", *cells)
    return table
