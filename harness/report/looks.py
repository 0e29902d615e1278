"""One colour and one marker for one impl, the same in every picture and on the page."""

from collections.abc import Iterable

from harness import catalog

# seaborn's "colorblind" palette, told apart by readers with any of the common kinds of colour blindness. By value:
# the page needs no drawing library.
PALETTE = (
    *("#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc"),
    *("#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9"),
)
MARKERS = "osD^vP*Xph"
# Those of the default sweep: colours are fewer than layers.
FIRST = ("rnn.elman", "rnn.torch", "attention.naive", "attention.packed", "attention.fused")


def looks(impls: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Colour and marker by impl: ours alike in every run, those that are measured most in colours of their own."""
    ours = [*FIRST, *(name for name in catalog.names() if name not in FIRST)]
    order = [*ours, *sorted(set(impls) - set(ours))]
    return {
        impl: (PALETTE[i % len(PALETTE)], MARKERS[(i + i // len(PALETTE)) % len(MARKERS)])
        for i, impl in enumerate(order)
    }
