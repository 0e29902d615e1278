"""How a layer looks on the page: the static plots' colour, marker and dash, in the terms of the page's charts."""

from collections.abc import Iterable

from harness.report.looks import looks

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


def marks(impls: Iterable[str]) -> dict[str, dict[str, str]]:
    """`{impl: {colour, symbol, path, dash}}` for each of `impls`, in the order of the plots."""
    wanted = set(impls)
    found = {}
    for impl, look in looks(wanted).items():
        if impl in wanted:
            symbol, path = _SHAPES[look.marker]
            dash = ",".join(f"{length * _PIXELS:g}px" for length in look.dash) or "solid"
            found[impl] = {"colour": look.colour, "symbol": symbol, "path": path, "dash": dash}
    return found
