"""`report.md`: the answer, short enough for a pull request."""

from collections.abc import Iterable, Sequence

from harness.findings.findings import Findings, Published
from harness.findings.roofline import above_the_roof
from harness.findings.verdicts import VERDICTS
from harness.report.escaped import code, escape
from harness.report.failures import failures
from harness.report.origin import Origin, facts, hardware
from harness.report.remarks import cautions
from harness.report.said import held_out, published, verdicts
from harness.report.said.costs import SLOPE, Answer, answers
from harness.report.said.crossovers import crossings, sentence
from harness.report.said.where import Where
from harness.summary import Line

# The most entries of one kind; report.html has more.
_MOST = 12
_MOST_SETTINGS = 4


def markdown(lines: Sequence[Line], findings: Findings, origin: Origin) -> str:
    """Return the text of report.md."""
    parts = [
        f"# {escape(origin.name)}",
        _about(lines, origin),
        *_published(findings.published, origin),
        *_answers(answers(lines, findings)),
        *_verdicts(findings),
        *map(escape, held_out.sentences(findings.held_out)),
        *_crossovers(findings),
        *_failures(lines),
        *_listed("What to know", [*cautions(lines), *above_the_roof(findings.roof_points)]),
        f"Again: {code(origin.command)}" if origin.command else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(lines: Sequence[Line], origin: Origin) -> str:
    known = dict(facts(origin.machine))
    what = [f"{len(lines)} cases", *(known[name] for name in ("processor", "GPU") if name in known)]
    what += [f"{name} {known[name]}" for name in ("torch", "commit") if name in known]
    return escape("; ".join(what)) + "."


def _published(found: Published | None, origin: Origin) -> list[str]:
    """The paper's claims with their verdicts, then its figures beside the measured ones."""
    if found is None:
        return []
    claims = [
        [one.claim.says, one.judgement.verdict, one.judgement.measured, one.judgement.reason] for one in found.claims
    ]
    parts = [
        f"## Published, and measured: {escape(published.title(found))}",
        *map(escape, published.about(found, hardware(origin.machine))),
        escape(published.count(found.claims)),
        _table(["the paper's claim", "verdict", "measured", "why"], claims, "llll") if claims else "",
    ]
    for table in published.tables(found):
        parts.append(escape(f"{table.title}: {table.quantity} ({table.origin})"))
        rows = [[row.layer, row.where, row.published, row.measured, row.ratio] for row in table.rows]
        parts.append(_table(["layer", "at", "published", "measured", "measured / published"], rows, "llrrr"))
    return parts


def _answers(found: Sequence[Answer]) -> list[str]:
    parts = [part for one in found[:_MOST_SETTINGS] for part in _answer(one, several=len(found) > 1)]
    if len(found) > _MOST_SETTINGS:
        parts.append(f"… and {len(found) - _MOST_SETTINGS} more settings: see report.html.")
    return [*parts, f"<sub>{SLOPE}</sub>"] if parts else ["Nothing was timed."]


def _answer(said: Answer, several: bool) -> list[str]:
    heading = [f"## {escape(said.setting.title)}"] if several else []
    first, *others = said.sentences or ("",)
    rows = [[row.line.impl, row.time, row.interval, row.memory, row.time_slope, row.memory_slope] for row in said.rows]
    caption = f"Cost of one call at {said.where} ({said.setting.title}):"
    table = _table(
        ["layer", "time", "interval, 95 %", "peak memory", "slope of time", "slope of memory"], rows, "lrrrrr"
    )
    return [*heading, f"**{escape(first)}**" if first else "", _bullets(others), escape(caption), table]


def _verdicts(findings: Findings) -> list[str]:
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
        ["layer", "mode", *(verdicts.name(quantity) for quantity in quantities)],
        [[impl, mode, *(found.get(quantity, "") for quantity in quantities)] for (impl, mode), found in rows.items()],
        "l" * (len(quantities) + 2),
    )
    return [
        "## Claims",
        verdicts.count(findings.verdicts),
        table,
        _bullets(verdicts.refuted(findings.verdicts)[:_MOST]),
    ]


def _crossovers(findings: Findings) -> list[str]:
    sure = [c for c in crossings(findings.crossovers) if c.decided and c.metric == "time"]
    where = Where.among(c.setting for c in findings.crossovers).beside_mode()
    said = []
    for c in sure:
        place = [f"d = {c.d_model}", f"h = {c.num_heads}", c.setting.mode, *filter(None, [where(c.setting)])]
        said.append(f"{sentence(c)[:-1]} ({', '.join(place)}).")
    return _listed("Crossovers", said)


def _failures(lines: Sequence[Line]) -> list[str]:
    found = failures(lines)
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
    return "\n".join(f"- {escape(sentence)}" for sentence in sentences)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    rule = ["---:" if side == "r" else ":---" for side in align]
    cells = [[escape(cell) for cell in row] for row in (headings, *rows)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (cells[0], rule, *cells[1:]))
