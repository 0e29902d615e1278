"""The HTML report: templates lay out sentences, tables, charts and the run's provenance, and escape everything.

The page is a single file that loads nothing from elsewhere. It embeds its styles, its scripts, the charting library and
the data of the charts: one record for each panel, and the axes that select a panel. Measured values come as numbers,
for the chart, beside the text that a reader sees.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from harness.analysis.crossovers import Crossover
from harness.analysis.roofline import Roof, RoofPoint, why_no_roof
from harness.errors import UsageError
from harness.formatting import printable
from harness.report import figure_panels as parts
from harness.report.document import Cell, Table
from harness.report.figure_panels import SETTING_AXES, Cost, Panel, PanelSetting
from harness.report.provenance import calibration
from harness.report.report_data import Contents
from harness.report.text import cautions, claims, costs
from harness.sweep_axes import AXES

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
_CHARTS = ("text.js", "figure.js", "curves.js", "speedup.js", "roofline.js", "crossovers.js")
_SCRIPTS = (*_CHARTS, "controls.js", "page.js", "theme.js")
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


_UNDER_NO_ROOF = "The roof that was measured is of another dtype, device or number of threads than these cases."

_POWER = re.compile(r"\^([−-]?\d+(?:\.\d+)?)")
_BASE = re.compile(r"\blog_(\w)\b")
_CODE = re.compile(r"`([^`]+)`")


def page(contents: Contents) -> str:
    """Return the text of report.html."""
    code = [inline_script(chart_library()), inline_script('"use strict";\n' + _assets(*_SCRIPTS))]
    charts = chart_data(contents)
    found = contents.findings
    values = {
        **vars(contents),
        "policy": content_policy(code),
        "style": Markup(_assets(*_STYLES)),  # the harness's own, so not escaped
        "scripts": code,
        "charts": charts,
        "data": embedded_json(charts),
        "table1": claims.order_table(found.table1),
        "beyond": claims.order_table(found.beyond_table1),
        "claims": claims.claims_table(found.verdicts),
        "laws": costs.laws_table(found.laws),
        "predictions": costs.held_out_table(found.held_out),
        "calibration": calibration(contents.provenance.machine),
        "no_roof": why_no_roof(contents.provenance.machine) or _UNDER_NO_ROOF,
    }
    return _environment().get_template("page.html").render(values)


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

    strict: dict[str, Any] = {"autoescape": True, "undefined": StrictUndefined, "finalize": shown_rows}
    templates = FileSystemLoader(Path(__file__).parent / "templates")
    environment = Environment(loader=templates, trim_blocks=True, lstrip_blocks=True, **strict)
    environment.filters |= {"powers": with_superscripts, "codes": with_code, "bars": _bars}
    return environment


_LEFT, _RIGHT = 6.0, 154.0
_Ends = tuple[float | None, float, float | None]


def bar_places(intervals: Sequence[_Ends | None]) -> list[_Ends | None]:
    """Where each interval begins, its point lies and it ends, on one logarithmic scale in units of the picture.

    None stays None. A point without an interval has no ends, and a lower end of 0 begins with the scale.
    """
    known = [value for interval in intervals if interval for value in interval if value]
    low, high = min(known, default=1.0), max(known, default=1.0)

    def place(value: float) -> float:
        share = math.log(max(value, low) / low) / math.log(high / low) if high > low else 0.5
        return round(_LEFT + (_RIGHT - _LEFT) * share, 1)

    found: list[_Ends | None] = []
    for lo, at, hi in (interval or (None, None, None) for interval in intervals):
        ends = (None, None) if lo is None or hi is None else (place(lo), place(hi))
        found.append(None if at is None else (ends[0], place(at), ends[1]))
    return found


def _bars(table: Table) -> list[_Ends | None]:
    """For each row the bar of its interval, or None."""
    cells = ([cell.ends for cell in row if isinstance(cell, Cell) and cell.ends] for row in table.rows)
    return bar_places([ends[0] if ends else None for ends in cells])


def curve_chart(panel: Panel, cost: Cost, axis: dict[str, Any] | None) -> dict[str, Any] | None:
    """`{"y", "curves": [{impl, n, value, lo, hi, text}], "failed": [{impl, n, value, status, text}]}`, by ascending n.

    None without an `axis`, which all panels of the setting share. The failed cases leave out layers whose cases are
    all unsupported: the chart would say nothing new about them.
    """
    if axis is None:
        return None
    gone = cautions.unsupported_layers(panel.lines)
    failed = [asdict(case) for case in parts.failed_cases(panel, cost) if case.impl not in gone]
    return {"y": axis, "curves": [asdict(curve) for curve in parts.cost_curves(panel, cost)], "failed": failed}


def roofline_chart(panel: Panel, roof: Roof | None, points: Sequence[RoofPoint]) -> dict[str, Any] | None:
    """The result of `roofline_frame` with `"curves": [{impl, n, x, y, lo, hi, text}]`; None if nothing can be drawn."""
    if roof is None or not points:
        return None
    of_impl = {impl: [point for point in points if point.line.impl == impl] for impl in panel.impls()}
    curves = [{"impl": impl, **parts.roofline_curve(own)} for impl, own in of_impl.items() if own]
    return {**parts.roofline_frame(roof, points), "curves": curves}


def crossover_chart(panel: Panel, found: Iterable[Crossover]) -> dict[str, Any] | None:
    """`{"x", "rows": [{slower, faster, metric, n, lo, hi, text, sentence}]}`; None if nothing crosses or may cross.

    The `n` of an undecided crossover is None, and so is an unknown end of its interval.
    """
    rows = [
        {
            "slower": c.slower,
            "faster": c.faster,
            "metric": c.metric,
            "n": c.seq_len,
            "lo": c.seq_len_lo or None,
            "hi": c.seq_len_hi,
            "text": str(c),
            "sentence": costs.crossover_sentence(c),
        }
        for c in costs.possible_crossings(found)
    ]
    return {"x": parts.size_axis(line.seq_len for line in panel.lines), "rows": rows} if rows else None


# Matplotlib's marker -> (plotly's name, the same shape as an SVG path within a circle of radius 5).
_SHAPES = {
    "o": ("circle", "M5 0A5 5 0 1 1-5 0A5 5 0 1 1 5 0Z"),
    "s": ("square", "M-4.4-4.4H4.4V4.4H-4.4Z"),
    "D": ("diamond", "M0-5.6L5.6 0L0 5.6L-5.6 0Z"),
    "^": ("triangle-up", "M0-5.4L5.2 3.9H-5.2Z"),
    "v": ("triangle-down", "M0 5.4L5.2-3.9H-5.2Z"),
    "P": ("cross", "M-1.9-5.2H1.9V-1.9H5.2V1.9H1.9V5.2H-1.9V1.9H-5.2V-1.9H-1.9Z"),
    "*": ("star", "M0-5.8L1.4-1.9L5.5-1.8L2.2.8L3.4 4.7L0 2.3L-3.4 4.7L-2.2.8L-5.5-1.8L-1.4-1.9Z"),
    "X": ("x", "M0-2.6L2.6-5.2L5.2-2.6L2.6 0L5.2 2.6L2.6 5.2L0 2.6L-2.6 5.2L-5.2 2.6L-2.6 0L-5.2-2.6L-2.6-5.2Z"),
    "p": ("pentagon", "M0-5.4L5.1-1.7L3.2 4.4H-3.2L-5.1-1.7Z"),
    "h": ("hexagon", "M0-5.4L4.7-2.7V2.7L0 5.4L-4.7 2.7V-2.7Z"),
}

# Pixels for each point of a dash's length, for a line as thick as the page's.
_PIXELS = 2


def marker_symbols(impls: Iterable[str]) -> dict[str, dict[str, str]]:
    """`{impl: {colour, symbol, path, dash}}` for each of `impls`, in the order of the plots.

    These are the colour, marker and dash of the static plots, in the terms of the page's charts.
    """
    found = {}
    for impl, look in parts.looks_of(impls).items():
        symbol, path = _SHAPES[look.marker]
        dash = ",".join(f"{length * _PIXELS:g}px" for length in look.dash) or "solid"
        found[impl] = {"colour": look.colour, "symbol": symbol, "path": path, "dash": dash}
    return found


# Axes that select a panel.
_SELECTORS = tuple(dict.fromkeys(("mode", "d_model", "num_heads", *SETTING_AXES)))


def chart_data(contents: Contents) -> dict[str, Any]:
    """`{"looks": {impl: look}, "axes": [{name, label, values}], "panels": [...], "first": index}`.

    Each panel has:

    - `at`: its value on every axis
    - `title`
    - `n`: the axis of n
    - `time`, `memory`: the curves with their y axis, or None
    - `roofline`, `crossovers`: the chart's data, or None

    `first` is the panel to open with. The run's grid gives the order of an axis's values where it matters.
    """
    panels: list[dict[str, Any]] = []
    for setting in contents.settings:
        roof = parts.roof_of_setting(contents.findings.roofs, setting)
        time, memory = (cost.axis_of(setting.panels) for cost in (parts.TIME, parts.MEMORY))
        panels += [
            {
                "at": {**setting.at, "d_model": panel.d_model, "num_heads": panel.num_heads},
                "title": f"d = {panel.d_model}, h = {panel.num_heads}; {setting.title}",
                "n": parts.size_axis(line.seq_len for line in panel.lines),
                "time": curve_chart(panel, parts.TIME, time),
                "memory": curve_chart(panel, parts.MEMORY, memory),
                "roofline": roofline_chart(panel, roof, parts.of_panel(contents.points, setting, panel)),
                "crossovers": crossover_chart(panel, parts.of_panel(contents.crossovers, setting, panel)),
            }
            for panel in setting.panels
        ]
    return {
        "looks": marker_symbols(line.impl for line in contents.lines),
        "axes": [
            {"name": name, "label": AXES[name].label, "values": sorted({panel["at"][name] for panel in panels})}
            for name in _SELECTORS
        ],
        "panels": panels,
        "first": _first(contents.settings, panels, contents.provenance.grid),
    }


def _first(found: Sequence[PanelSetting], panels: Sequence[dict[str, Any]], grid: Mapping[str, Sequence[Any]]) -> int:
    """The index of the panel to open with: the fullest panel of the setting with the most timed cases.

    Among equal settings, one with a roofline comes first, then the first of the grid.
    """
    places = [(setting, panel) for setting in found for panel in setting.panels]

    def rank(setting: PanelSetting) -> tuple[int, bool, list[int]]:
        timed = sum(line.time_s is not None for panel in setting.panels for line in panel.lines)
        has_roof = any(one["roofline"] for (of, _), one in zip(places, panels, strict=True) if of is setting)
        orders = [(list(grid.get(axis, ())), value) for axis, value in setting.at.items()]
        return timed, has_roof, [-order.index(value) if value in order else 0 for order, value in orders]

    if not found:
        return 0
    fullest = parts.fullest_panel(max(found, key=rank).panels)
    return next(i for i, (_, panel) in enumerate(places) if panel is fullest)
