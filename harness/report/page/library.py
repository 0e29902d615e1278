"""The charting library's JavaScript, read from the installed package and put into the page as it is.

Plotly: SVG, so that a page prints sharp and is styled by CSS; hover, touch and log axes are its own; it is one plain
file in its wheel, found without importing the package. Bokeh's is a quarter as large (1.3 MB against 4.8 MB), but draws
on a canvas and wants documents that only its own Python writes, slow to import, and it brings a web server along.
"""

from importlib.util import find_spec
from pathlib import Path

from harness.errors import UsageError


def library() -> str:
    """The source. Raises UsageError where the package is not installed."""
    spec = find_spec("plotly")  # of a package that is not inside another: nothing is imported
    for directory in spec.submodule_search_locations or () if spec else ():
        path = Path(directory) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise UsageError("report.html needs plotly's JavaScript, which is not installed: pip install plotly")
