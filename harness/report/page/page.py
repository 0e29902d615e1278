"""The page: sentences, tables, charts and the run's origin, laid out by templates that escape everything."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from harness.findings.findings import Findings
from harness.findings.roofline import above_the_roof, why_no_roof
from harness.report import origin as origins
from harness.report.escaped import printable
from harness.report.failures import failures
from harness.report.origin import Origin
from harness.report.page import rows, scripts
from harness.report.page.bars import bars
from harness.report.page.data import chart_data
from harness.report.page.library import library
from harness.report.page.orders import orders
from harness.report.remarks import cautions
from harness.report.said import held_out, published, verdicts
from harness.report.said.costs import SLOPE, answers
from harness.summary import Line

if TYPE_CHECKING:
    from jinja2 import Environment

# The most rows of one kind on the page; the tables beside the page have all.
_MOST = 50
_UNDER_NO_ROOF = "The roof that was measured is of another dtype, device or number of threads than these cases."

_POWER = re.compile(r"\^([−-]?\d+(?:\.\d+)?)")
_BASE = re.compile(r"\blog_(\w)\b")
_CODE = re.compile(r"`([^`]+)`")


def page(lines: Sequence[Line], findings: Findings, origin: Origin, notices: Sequence[str] = ()) -> str:
    """Return the text of report.html."""
    code = [scripts.inline(library()), scripts.inline(scripts.ours())]
    data = chart_data(lines, findings, origin.grid)
    return (
        _environment()
        .get_template("page.html")
        .render(
            policy=scripts.policy(code),
            style=scripts.style(),
            scripts=code,
            data=embedded(data),
            looks=data["looks"],
            drawable=any(panel["time"] or panel["memory"] for panel in data["panels"]),
            origin=origin,
            findings=findings,
            notices=notices,
            published=_published(findings, origin),
            **_answer(lines, findings),
            **_found(findings),
            **_failed(lines, findings),
            **_from(lines, findings, origin),
        )
    )


def embedded(data: Mapping[str, Any]) -> Markup:
    """Return data as JSON that no HTML parser takes for markup: `<`, `>` and `&` become JSON escapes.

    Raises ValueError for a number that is not finite, since JSON has no such numbers.
    """
    text = json.dumps(_visible(data), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _visible(data: Any) -> Any:
    """The same data with every text printable."""
    if isinstance(data, str):
        return printable(data)
    if isinstance(data, Mapping):
        return {_visible(key): _visible(value) for key, value in data.items()}
    return [_visible(one) for one in data] if isinstance(data, list | tuple) else data


def shown(value: Any) -> Any:
    """Prepare a value for a template: make text printable and keep its lines."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return "\n".join(map(printable, value.split("\n")))


def codes(sentence: str) -> Markup:
    """Return the sentence as HTML: text between backticks as code, everything escaped."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(Markup.escape(shown(sentence)))))


def powers(formula: str) -> Markup:
    """Return the formula as escaped HTML.

    The power of `n^1.87 (1.79 to 2.00)` is raised, and the base of `log_k` is lowered.
    """
    raised = _POWER.sub(r"<sup>\1</sup>", str(Markup.escape(shown(formula))))
    return Markup(_BASE.sub(r"log<sub>\1</sub>", raised))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    templates = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(
        loader=templates,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=shown,
    )
    environment.filters |= {"powers": powers, "codes": codes}
    return environment


def _answer(lines: Sequence[Line], findings: Findings) -> dict[str, Any]:
    found = answers(lines, findings)
    return {
        "answers": [
            {"said": one, "rows": list(zip(one.rows, bars([row.line for row in one.rows]), strict=True))}
            for one in found
        ],
        "slope": SLOPE,
        "findings_said": [
            *filter(None, [verdicts.count(findings.verdicts)]),
            *verdicts.refuted(findings.verdicts),
            *held_out.sentences(findings.held_out),
        ],
    }


def _published(findings: Findings, origin: Origin) -> dict[str, Any] | None:
    found = findings.published
    if found is None:
        return None
    return {
        "title": published.title(found),
        "about": published.about(found, origins.hardware(origin.machine)),
        "claims": found.claims,
        "count": published.count(found.claims),
        "tables": published.tables(found),
    }


def _found(findings: Findings) -> dict[str, Any]:
    claims = rows.claim_rows(findings.verdicts)
    return {
        "table1": orders(findings.table1),
        "beyond": orders(findings.beyond_table1),
        "claims": claims[:_MOST],
        "claims_left": max(0, len(claims) - _MOST),
        "count_of_verdicts": verdicts.count(findings.verdicts),
        "quantity": verdicts.name,
        "laws": rows.law_rows(findings.laws, _MOST),
        "laws_left": rows.left_out([fitted.series.metric for fitted in findings.laws], _MOST),
        "held_out": rows.held_out_rows(findings.held_out, _MOST),
        "held_out_left": rows.left_out([one.metric for one in findings.held_out], _MOST),
        "held_out_said": held_out.sentences(findings.held_out),
    }


def _failed(lines: Sequence[Line], findings: Findings) -> dict[str, Any]:
    found = failures(lines)
    return {
        "cases": len(lines),
        "failed": sum(line.status != "ok" for line in lines),
        "failures": rows.failure_rows(found[:_MOST]),
        "failures_left": max(0, len(found) - _MOST),
        "remarks": [*cautions(lines), *above_the_roof(findings.roof_points)],
    }


def _from(lines: Sequence[Line], findings: Findings, origin: Origin) -> dict[str, Any]:
    layers = list(dict.fromkeys(line.impl for line in lines))
    about = dict(origins.facts(origin.machine))
    return {
        "layers": layers,
        "meta": [
            f"{len(lines)} cases",
            *(about[what] for what in ("processor", "GPU") if what in about),
            *([f"torch {about['torch']}"] if "torch" in about else []),
        ],
        "machine": list(about.items()),
        "calibration": origins.calibration(origin.machine),
        "no_roof": why_no_roof(origin.machine) or _UNDER_NO_ROOF,
        "contents": _contents(findings),
    }


def _contents(findings: Findings) -> list[tuple[str, str]]:
    return [
        ("answer", "Answer"),
        *([("published", "Published")] if findings.published else []),
        *([("table1", "Table 1")] if findings.table1 else []),
        ("charts", "Charts"),
        *([("claims", "Claims")] if findings.verdicts else []),
        *([("laws", "Laws")] if findings.laws else []),
        *([("predictions", "Predictions")] if findings.held_out else []),
        ("failures", "Failures"),
        ("origin", "Origin"),
    ]
