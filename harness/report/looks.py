"""One colour, marker and dash for one impl, the same in every picture and on the page."""

from collections.abc import Iterable
from typing import NamedTuple

from harness import catalog

# seaborn's "colorblind" palette, told apart by readers with any of the common kinds of colour blindness. By value:
# the page needs no drawing library.
PALETTE = (
    *("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc"),
    *("#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9"),
)
MARKERS = "osD^vP*Xph"
# In points, on and off: a colour comes again only with another of these.
DASHES = ((), (5, 1.5), (1.5, 1.5), (6, 1.5, 1.5, 1.5))
# Those of the default sweep: colours are fewer than layers.
FIRST = ("rnn.elman", "rnn.torch", "attention.naive", "attention.packed", "attention.fused")


class Look(NamedTuple):
    """How an impl is drawn: a colour, matplotlib's marker, and the dashes of its line, none for a solid one."""

    colour: str
    marker: str
    dash: tuple[float, ...]


def looks(impls: Iterable[str]) -> dict[str, Look]:
    """The look by impl: ours alike in every run, those that are measured most in colours of their own."""
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
