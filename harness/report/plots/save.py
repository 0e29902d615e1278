"""One picture, as PNG and as SVG whose text stays text: small, searchable, and with the reader's own fonts."""

import warnings
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure


def save(figure: Figure, path: Path) -> list[Path]:
    """Write `path` with either ending, and name both. Raises OSError where that cannot be."""
    # Appended: a name may hold a point of its own, as that of a share does.
    png, svg = (path.with_name(f"{path.name}.{ending}") for ending in ("png", "svg"))
    with warnings.catch_warnings(), rc_context({"svg.fonttype": "none"}):
        # A letter that no font has is a box, which the picture shows: nobody need be told of each.
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
        warnings.filterwarnings("ignore", "Matplotlib currently does not support", UserWarning)
        figure.savefig(png, dpi=130)
        figure.set_layout_engine("none")  # laid out once, for both: it is half of the drawing
        figure.savefig(svg)
    return [png, svg]
