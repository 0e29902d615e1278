"""Markdown for a job summary or a pull request: problems first, passed outcomes folded away."""

from collections.abc import Sequence

from harness.gate.outcome import PASSED, Outcome, counted, ordered
from harness.report.escaped import escape

# GitHub limits a job summary to one mebibyte and a comment to 65,536 characters. The JSON file holds all outcomes.
_MOST = 100
_HEADINGS = ("verdict", "layer and size", "quantity", "was", "is", "why")


def markdown(title: str, outcomes: Sequence[Outcome], remarks: Sequence[str] = ()) -> str:
    """The whole text. `remarks` are sentences printed below the table."""
    wanting = [outcome for outcome in ordered(outcomes) if outcome.verdict != PASSED]
    passed = [outcome for outcome in outcomes if outcome.verdict == PASSED]
    parts = [
        f"## {escape(title)}",
        f"**{escape(counted(outcomes))}**",
        _table(wanting),
        "\n".join(f"- {escape(remark)}" for remark in remarks),
    ]
    if passed:
        parts += [f"<details><summary>{len(passed)} passed</summary>", _table(passed), "</details>"]
    return "\n\n".join(part for part in parts if part) + "\n"


def _table(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return ""
    rows = [(o.verdict, o.subject, o.quantity, o.was, o.now, o.reason) for o in outcomes[:_MOST]]
    lines = [_HEADINGS, (":---",) * len(_HEADINGS), *(tuple(map(escape, row)) for row in rows)]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    more = len(outcomes) - _MOST
    return f"{table}\n\n… and {more} more." if more > 0 else table
