"""One colour, marker and dash pattern for each layer, the same in every plot and on the page."""

from collections.abc import Iterable
from typing import NamedTuple

from harness import catalog

# seaborn's "colorblind" palette: readers with any common kind of colour blindness can tell its colours apart. Given by
# value, so that the page needs no drawing library.
PALETTE = (
    *("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc"),
    *("#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9"),
)
MARKERS = "osD^vP*Xph"
# Lengths in points, on and off. A colour is used again only with another dash pattern.
DASHES = ((), (5, 1.5), (1.5, 1.5), (6, 1.5, 1.5, 1.5))
# The layers of the default sweep get the first colours, since there are fewer colours than layers.
FIRST = ("rnn.elman", "rnn.torch", "attention.naive", "attention.packed", "attention.fused")


class Look(NamedTuple):
    """How a layer is drawn: colour, matplotlib marker, and the dashes of its line. A solid line has no dashes."""

    colour: str
    marker: str
    dash: tuple[float, ...]


def looks(impls: Iterable[str]) -> dict[str, Look]:
    """Return the look of each layer by name, including all built-in layers.

    A built-in layer looks the same in every run. The layers measured most often have colours of their own.
    """
    ours = [*FIRST, *(name for name in catalog.names() if name not in FIRST)]
    order = [*ours, *sorted(set(impls) - set(ours))]
    return {
        impl: Look(
            PALETTE[i % len(PALETTE)],
            MARKERS[(i + i // len(PALETTE)) % len(MARKERS)],
            DASHES[i // len(PALETTE) % len(DASHES)],
        )
        for i, impl in enumerate(order)
    }
