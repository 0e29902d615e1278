"""Save a plot as PNG and as SVG. The SVG's text stays text: small, searchable, and in the reader's own fonts."""

import warnings
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure


def save(figure: Figure, path: Path) -> list[Path]:
    """Write the figure to `path` with either suffix and return both paths. Raises OSError if it cannot be written."""
    # Appended, not replaced: a name may contain a dot of its own, as that of a share does.
    png, svg = (path.with_name(f"{path.name}.{ending}") for ending in ("png", "svg"))
    with warnings.catch_warnings(), rc_context({"svg.fonttype": "none"}):
        # A letter that no font has is drawn as a box. The plot shows it, so a warning for each is unnecessary.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        warnings.filterwarnings("ignore", "Matplotlib currently does not support", UserWarning)
        figure.savefig(png, dpi=130)
        figure.set_layout_engine("none")  # laid out once for both: the layout is half of the drawing
        figure.savefig(svg)
    return [png, svg]
