"""The HTML report: templates lay out sentences, tables, charts and the run's origin, and escape everything.

The page is a single file that loads nothing from elsewhere. It embeds its styles, its scripts and the charting library.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from harness.analysis.analyse import Analysis
from harness.analysis.roofline import points_above_roof, why_no_roof
from harness.errors import UsageError
from harness.formatting import printable
from harness.report import provenance as origins
from harness.report.html import tables
from harness.report.html.charts import chart_data
from harness.report.html.tables import bar_widths, order_table
from harness.report.provenance import Provenance
from harness.report.text import checks, laws
from harness.report.text.costs import SCALING_EXPONENT, answers
from harness.report.text.quality import failure_groups, report_cautions
from harness.results.table import CaseResult

if TYPE_CHECKING:
    from jinja2 import Environment


def chart_library() -> str:
    """Return Plotly's JavaScript from the installed package. Raises UsageError if the package is not installed.

    The page embeds the script unchanged. Plotly draws SVG, so a page prints sharp and CSS can style it. Hover, touch
    and logarithmic axes are built in. The script is one plain file in Plotly's wheel, found without importing the
    package.

    Bokeh's script is a quarter as large (1.3 MB against 4.8 MB), but it draws on a canvas. Only Bokeh's own Python
    package writes the documents that its script needs. That package is slow to import and brings a web server along.
    """
    spec = find_spec("plotly")  # a top-level package: finding it imports nothing
    for directory in spec.submodule_search_locations or () if spec else ():
        path = Path(directory) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise UsageError("report.html needs plotly's JavaScript, which is not installed: pip install plotly")


_ASSETS = Path(__file__).parent / "assets"
_STYLES = ("page.css", "tables.css", "charts.css", "print.css")
_SCRIPTS = ("text.js", "figure.js", "curves.js", "speedup.js", "roofline.js", "crossovers.js", "controls.js", "page.js")
_END = re.compile(r"</(?=script)", re.IGNORECASE)


def style_block() -> Markup:
    """All of the page's CSS. None of it comes from outside the harness, so it is not escaped."""
    return Markup("\n".join(_read_asset(name) for name in _STYLES))


def script_block() -> str:
    """All of the page's own JavaScript, as one script."""
    return '"use strict";\n' + "\n".join(_read_asset(name) for name in (*_SCRIPTS, "theme.js"))


def inline_script(source: str) -> Markup:
    """Return a script that can be embedded in HTML.

    `</script` within it does not end it. Its lines end in line feeds, as after an HTML parser.
    """
    unix = source.replace("\r\n", "\n").replace("\r", "\n")
    return Markup(_END.sub(r"<\\/", unix))


def content_policy(scripts: list[Markup]) -> str:
    """The Content Security Policy (level 3; W3C) of a page with these scripts.

    The policy names each script by its hash, so only these scripts run. If a script in the data ever got past the
    escaping, it would not run. The policy also prevents loading anything from elsewhere.
    """
    hashes = " ".join(f"'sha256-{_script_digest(script)}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _script_digest(script: Markup) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def _read_asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


# The most rows of one kind on the page; the tables beside the page have all.
_MOST = 50
_UNDER_NO_ROOF = "The roof that was measured is of another dtype, device or number of threads than these cases."

_POWER = re.compile(r"\^([−-]?\d+(?:\.\d+)?)")
_BASE = re.compile(r"\blog_(\w)\b")
_CODE = re.compile(r"`([^`]+)`")


def page(lines: Sequence[CaseResult], findings: Analysis, origin: Provenance, notices: Sequence[str] = ()) -> str:
    """Return the text of report.html."""
    code = [inline_script(chart_library()), inline_script(script_block())]
    data = chart_data(lines, findings, origin.grid)
    return (
        _environment()
        .get_template("page.html")
        .render(
            policy=content_policy(code),
            style=style_block(),
            scripts=code,
            data=embedded_json(data),
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


def embedded_json(data: Mapping[str, Any]) -> Markup:
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


def shown_rows(value: Any) -> Any:
    """Prepare a value for a template: make text printable and keep its lines."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return "\n".join(map(printable, value.split("\n")))


def with_code(sentence: str) -> Markup:
    """Return the sentence as HTML: text between backticks as code, everything escaped."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(Markup.escape(shown_rows(sentence)))))


def with_superscripts(formula: str) -> Markup:
    """Return the formula as escaped HTML.

    The power of `n^1.87 (1.79 to 2.00)` is raised, and the base of `log_k` is lowered.
    """
    raised = _POWER.sub(r"<sup>\1</sup>", str(Markup.escape(shown_rows(formula))))
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
        finalize=shown_rows,
    )
    environment.filters |= {"powers": with_superscripts, "codes": with_code}
    return environment


def _answer(lines: Sequence[CaseResult], findings: Analysis) -> dict[str, Any]:
    found = answers(lines, findings)
    return {
        "answers": [
            {"said": one, "rows": list(zip(one.rows, bar_widths([row.line for row in one.rows]), strict=True))}
            for one in found
        ],
        "slope": SCALING_EXPONENT,
        "findings_said": [
            *filter(None, [laws.verdict_count(findings.verdicts)]),
            *laws.refuted_sentences(findings.verdicts),
            *laws.held_out_sentences(findings.held_out),
        ],
    }


def _published(findings: Analysis, origin: Provenance) -> dict[str, Any] | None:
    found = findings.published
    if found is None:
        return None
    return {
        "title": checks.figures_title(found),
        "about": checks.figures_about(found, origins.hardware(origin.machine)),
        "claims": found.claims,
        "count": checks.claim_count(found.claims),
        "tables": checks.figure_tables(found),
    }


def _found(findings: Analysis) -> dict[str, Any]:
    claims = tables.claim_rows(findings.verdicts)
    return {
        "table1": order_table(findings.table1),
        "beyond": order_table(findings.beyond_table1),
        "claims": claims[:_MOST],
        "claims_left": max(0, len(claims) - _MOST),
        "count_of_verdicts": laws.verdict_count(findings.verdicts),
        "quantity": laws.claim_name,
        "laws": tables.law_rows(findings.laws, _MOST),
        "laws_left": tables.omitted_claims([fitted.series.metric for fitted in findings.laws], _MOST),
        "held_out": tables.held_out_rows(findings.held_out, _MOST),
        "held_out_left": tables.omitted_claims([one.metric for one in findings.held_out], _MOST),
        "held_out_said": laws.held_out_sentences(findings.held_out),
    }


def _failed(lines: Sequence[CaseResult], findings: Analysis) -> dict[str, Any]:
    found = failure_groups(lines)
    return {
        "cases": len(lines),
        "failed": sum(line.status != "ok" for line in lines),
        "failures": tables.failure_rows(found[:_MOST]),
        "failures_left": max(0, len(found) - _MOST),
        "remarks": [*report_cautions(lines), *points_above_roof(findings.roof_points)],
    }


def _from(lines: Sequence[CaseResult], findings: Analysis, origin: Provenance) -> dict[str, Any]:
    layers = list(dict.fromkeys(line.impl for line in lines))
    about = dict(origins.provenance_facts(origin.machine))
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


def _contents(findings: Analysis) -> list[tuple[str, str]]:
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
