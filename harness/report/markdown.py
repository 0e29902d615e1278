"""`report.md`: the answer, short enough for a pull request."""

from collections.abc import Iterable, Sequence

from harness.analysis.analyse import Analysis, PublishedFindings
from harness.analysis.claims_table import VERDICTS
from harness.analysis.roofline import points_above_roof
from harness.formatting import code, escape_markdown
from harness.report.provenance import Provenance, hardware, provenance_facts
from harness.report.text import checks, laws
from harness.report.text.costs import (
    SCALING_EXPONENT,
    Answer,
    SettingLabel,
    answers,
    crossing_sentences,
    crossover_sentence,
)
from harness.report.text.quality import failure_groups, report_cautions
from harness.results.table import CaseResult

# The most entries of one kind; report.html has more.
_MOST = 12
_MOST_SETTINGS = 4


def report_markdown(lines: Sequence[CaseResult], findings: Analysis, origin: Provenance) -> str:
    """Return the text of report.md."""
    parts = [
        f"# {escape_markdown(origin.name)}",
        _about(lines, origin),
        *_published(findings.published, origin),
        *_answers(answers(lines, findings)),
        *_verdicts(findings),
        *map(escape_markdown, laws.held_out_sentences(findings.held_out)),
        *_crossovers(findings),
        *_failures(lines),
        *_listed("What to know", [*report_cautions(lines), *points_above_roof(findings.roof_points)]),
        f"Again: {code(origin.command)}" if origin.command else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(lines: Sequence[CaseResult], origin: Provenance) -> str:
    known = dict(provenance_facts(origin.machine))
    what = [f"{len(lines)} cases", *(known[name] for name in ("processor", "GPU") if name in known)]
    what += [f"{name} {known[name]}" for name in ("torch", "commit") if name in known]
    return escape_markdown("; ".join(what)) + "."


def _published(found: PublishedFindings | None, origin: Provenance) -> list[str]:
    """The paper's claims with their verdicts, then its figures beside the measured ones."""
    if found is None:
        return []
    claims = [
        [one.claim.says, one.judgement.verdict, one.judgement.measured, one.judgement.reason] for one in found.claims
    ]
    parts = [
        f"## Published, and measured: {escape_markdown(checks.figures_title(found))}",
        *map(escape_markdown, checks.figures_about(found, hardware(origin.machine))),
        escape_markdown(checks.claim_count(found.claims)),
        _table(["the paper's claim", "verdict", "measured", "why"], claims, "llll") if claims else "",
    ]
    for table in checks.figure_tables(found):
        parts.append(escape_markdown(f"{table.title}: {table.quantity} ({table.origin})"))
        rows = [[row.layer, row.where, row.published, row.measured, row.ratio] for row in table.rows]
        parts.append(_table(["layer", "at", "published", "measured", "measured / published"], rows, "llrrr"))
    return parts


def _answers(found: Sequence[Answer]) -> list[str]:
    parts = [part for one in found[:_MOST_SETTINGS] for part in _answer(one, several=len(found) > 1)]
    if len(found) > _MOST_SETTINGS:
        parts.append(f"… and {len(found) - _MOST_SETTINGS} more settings: see report.html.")
    return [*parts, f"<sub>{SCALING_EXPONENT}</sub>"] if parts else ["Nothing was timed."]


def _answer(said: Answer, several: bool) -> list[str]:
    heading = [f"## {escape_markdown(said.setting.title)}"] if several else []
    first, *others = said.sentences or ("",)
    rows = [[row.line.impl, row.time, row.interval, row.memory, row.time_slope, row.memory_slope] for row in said.rows]
    caption = f"Cost of one call at {said.where} ({said.setting.title}):"
    table = _table(
        ["layer", "time", "interval, 95 %", "peak memory", "slope of time", "slope of memory"], rows, "lrrrrr"
    )
    return [
        *heading,
        f"**{escape_markdown(first)}**" if first else "",
        _bullets(others),
        escape_markdown(caption),
        table,
    ]


def _verdicts(findings: Analysis) -> list[str]:
    """A table with a row per layer and mode and a column per quantity, then a sentence for each refuted claim."""
    if not findings.verdicts:
        return []
    quantities = list(dict.fromkeys(one.quantity for one in findings.verdicts))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for one in findings.verdicts:
        rows.setdefault((one.impl, one.setting.mode), {}).setdefault(one.quantity, one.verdict)
        # Several settings can share a cell: it shows a refutation in any of them.
        if one.verdict == VERDICTS[1]:
            rows[one.impl, one.setting.mode][one.quantity] = one.verdict
    table = _table(
        ["layer", "mode", *(laws.claim_name(quantity) for quantity in quantities)],
        [[impl, mode, *(found.get(quantity, "") for quantity in quantities)] for (impl, mode), found in rows.items()],
        "l" * (len(quantities) + 2),
    )
    return [
        "## Claims",
        laws.verdict_count(findings.verdicts),
        table,
        _bullets(laws.refuted_sentences(findings.verdicts)[:_MOST]),
    ]


def _crossovers(findings: Analysis) -> list[str]:
    sure = [c for c in crossing_sentences(findings.crossovers) if c.decided and c.metric == "time"]
    where = SettingLabel.among(c.setting for c in findings.crossovers).beside_mode()
    said = []
    for c in sure:
        place = [f"d = {c.d_model}", f"h = {c.num_heads}", c.setting.mode, *filter(None, [where(c.setting)])]
        said.append(f"{crossover_sentence(c)[:-1]} ({', '.join(place)}).")
    return _listed("Crossovers", said)


def _failures(lines: Sequence[CaseResult]) -> list[str]:
    found = failure_groups(lines)
    rows = [[one.impl, one.status, str(len(one.lines)), str(one.lines[0].seq_len), one.reason] for one in found[:_MOST]]
    if not rows:
        return []
    table = _table(["layer", "status", "cases", "from n", "why"], rows, "llrrl")
    return ["## Failures", table, _more(len(found), "kinds of failure")]


def _listed(heading: str, said: Sequence[str]) -> list[str]:
    return [f"## {heading}", _bullets(said[:_MOST]), _more(len(said), "of them")] if said else []


def _more(number: int, of_what: str) -> str:
    return f"… and {number - _MOST} more {of_what}: see report.html." if number > _MOST else ""


def _bullets(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {escape_markdown(sentence)}" for sentence in sentences)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    rule = ["---:" if side == "r" else ":---" for side in align]
    cells = [[escape_markdown(cell) for cell in row] for row in (headings, *rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (cells[0], rule, *cells[1:]))
