"""The HTML report: templates lay out sentences, tables, charts and the run's provenance, and escape everything.

The page is a single file that loads nothing from elsewhere. It embeds its styles, its scripts, the charting library and
the data of the charts.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from harness.core.model.errors import UsageError
from harness.core.model.formatting import printable
from harness.study.report.chart import BEYOND, HOLLOW
from harness.study.report.document import Table, grouped
from harness.study.report.provenance import calibration
from harness.study.report.report_data import Contents
from harness.study.report.text import claims, cost_models, costs

from .chart_data import chart_data

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
_SCRIPTS = """
    text.js figure.js overview.js over_axis.js curves.js speedup.js points.js crossovers.js controls.js page.js theme.js
"""
_END = re.compile(r"</(?=script)", re.IGNORECASE)


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
    digests = [base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii") for script in scripts]
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _assets(*names: str) -> str:
    return "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in names)


_POWER = re.compile(r"\^([−-]?\d+(?:\.\d+)?)")
_BASE = re.compile(r"\blog_(\w)\b")


def page(contents: Contents) -> str:
    """Return the text of report.html."""
    charts, findings = chart_data(contents), contents.findings
    by_metric = grouped(cost_models.worst_first(findings.held_out), lambda one: one.metric)
    named = [prediction for of_metric in by_metric.values() for prediction in of_metric[:_MOST_NAMED]]
    values = {
        **vars(contents),
        "charts": charts,
        "table1": claims.order_table(findings.table1),
        "beyond": claims.order_table(findings.beyond_table1),
        "claims": claims.claims_table(findings.verdicts),
        "laws": cost_models.laws_table(findings.laws),
        "predictions": cost_models.held_out_table(named),
        "unknown_exponent": costs.UNKNOWN_EXPONENT,
        "bar_notes": {"beyond": BEYOND, "hollow": HOLLOW},
        "calibration": calibration(contents.provenance.machine),
    }
    return rendered("page.html", _SCRIPTS.split(), charts, values)


def rendered(template: str, scripts: Sequence[str], data: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """Return the text of one page: a template with its `values`, and `scripts` of the assets that draw the `data`."""
    code = [inline_script(chart_library()), inline_script('"use strict";\n' + _assets(*scripts))]
    style = Markup(_assets(*_STYLES))  # the harness's own, so not escaped
    filled = {**values, "policy": content_policy(code), "style": style, "scripts": code, "data": embedded_json(data)}
    return _environment().get_template(template).render(filled)


# The most predictions of one cost to name.
_MOST_NAMED = 3


def embedded_json(data: Mapping[str, Any]) -> Markup:
    """Return data as JSON that no HTML parser takes for markup: `<`, `>`, `&` and `'` become JSON escapes.

    Raises ValueError for a number that is not finite, since JSON has no such numbers.
    """
    from jinja2.utils import htmlsafe_json_dumps

    compact = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    return htmlsafe_json_dumps(_visible(data), json.dumps, **compact)


def _visible(data: Any) -> Any:
    """The same data with every text printable, and each part of a chart as a mapping."""
    data = vars(data) if is_dataclass(data) else data
    if isinstance(data, str):
        return printable(data)
    if isinstance(data, Mapping):
        return {_visible(key): _visible(value) for key, value in data.items()}
    return list(map(_visible, data)) if isinstance(data, list | tuple) else data


def shown_rows(value: Any) -> Any:
    """Prepare a value for a template: make text printable and keep its lines."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return "\n".join(map(printable, value.split("\n")))


def with_superscripts(formula: str) -> Markup:
    """Return the formula as escaped HTML.

    The power of `n^1.87 (1.79 to 2.00)` is raised, and the base of `log_k` is lowered.
    """
    raised = _POWER.sub(r"<sup>\1</sup>", str(Markup.escape(shown_rows(formula))))
    return Markup(_BASE.sub(r"log<sub>\1</sub>", raised))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    strict: dict[str, Any] = {"autoescape": True, "undefined": StrictUndefined, "finalize": shown_rows}
    templates = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(loader=templates, trim_blocks=True, lstrip_blocks=True, **strict)
    environment.filters |= {"powers": with_superscripts, "bars": _bars}
    return environment


_LEFT, _RIGHT = 6.0, 154.0
_Ends = tuple[float | None, float, float | None]


def bar_places(intervals: Sequence[_Ends | None]) -> list[_Ends | None]:
    """Where each interval begins, its point lies and it ends, on one logarithmic scale in units of the picture.

    None stays None. A point without an interval has no ends, and a lower end of 0 begins with the scale.
    """
    above_zero = [*filter(None, chain.from_iterable(filter(None, intervals)))]
    low, high = min(above_zero, default=1.0), max(above_zero, default=1.0)

    def place(value: float) -> float:
        share = math.log(max(value, low) / low) / math.log(high / low) if high > low else 0.5
        return round(_LEFT + (_RIGHT - _LEFT) * share, 1)

    bars: list[_Ends | None] = []
    for interval in intervals:
        if interval is None:
            bars.append(None)
        else:
            lo, at, hi = interval
            bars.append((None, place(at), None) if lo is None or hi is None else (place(lo), place(at), place(hi)))
    return bars


def _bars(table: Table) -> list[_Ends | None]:
    """For each row the bar of its interval, or None."""
    return bar_places([next(filter(None, (getattr(cell, "ends", None) for cell in row)), None) for row in table.rows])
