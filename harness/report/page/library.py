"""The charting library's JavaScript, read from the installed package and embedded in the page unchanged.

The library is Plotly. It draws SVG, so a page prints sharp and CSS can style it. Hover, touch and logarithmic axes are
built in. Its script is one plain file in its wheel, found without importing the package. Bokeh's script is a quarter as
large (1.3 MB against 4.8 MB), but it draws on a canvas. Only Bokeh's own Python package writes the documents that its
script needs. That package is slow to import and brings a web server along.
"""

from importlib.util import find_spec
from pathlib import Path

from harness.errors import UsageError


def library() -> str:
    """Return the source of the script. Raises UsageError if the package is not installed."""
    spec = find_spec("plotly")  # a top-level package: finding it imports nothing
    for directory in spec.submodule_search_locations or () if spec else ():
        path = Path(directory) / "package_data" / "plotly.min.js"
        if path.is_file():
            return path.read_text(encoding="utf-8")
    raise UsageError("report.html needs plotly's JavaScript, which is not installed: pip install plotly")
