"""How each layer of a run is drawn: colour, marker and dashes, alike in every plot of the run and on its page."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from harness.core.results.columns import CaseResult
from impls.registry import IMPLS

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
    dash: tuple[float, ...] = ()


# The look of each layer.
Looks = Mapping[str, Look]


def nth_look(i: int) -> Look:
    """The look of the layer number `i`: the first ones have colours of their own."""
    colour, marker = PALETTE[i % len(PALETTE)], MARKERS[(i + i // len(PALETTE)) % len(MARKERS)]
    return Look(colour, marker, DASHES[i // len(PALETTE) % len(DASHES)])


def looks_of_run(lines: Sequence[CaseResult]) -> dict[str, Look]:
    """The result of `looks_of` for a run. Of more than ten layers, an overview shows the fastest of each family."""
    impls = {line.impl for line in lines}
    timed = sorted((line for line in lines if line.time_s), key=lambda line: (line.seq_len, -(line.time_s or 0)))
    return looks_of(impls, {line.family: line.impl for line in timed}.values() if len(impls) > len(PALETTE) else ())


def looks_of(impls: Iterable[str], fastest: Collection[str] = ()) -> dict[str, Look]:
    """Return the look of each layer of a run by name, in the order of the looks. No two looks are equal.

    The layers measured most often have the same colours in every run. Each of the others gets a colour that its family
    has least, and then one that the run has least: up to ten layers never share a colour. Nor do up to ten that are
    the `fastest`.
    """
    of_run = set(impls)
    ours = dict.fromkeys((*FIRST, *IMPLS))
    order = [*(impl for impl in ours if impl in of_run), *sorted(of_run - ours.keys())]
    places = {impl: at for at, impl in enumerate(FIRST) if impl in of_run}
    uses = Counter(places.values())
    uses_in_family = Counter((impl.partition(".")[0], at) for impl, at in places.items())
    apart = Counter(places[impl] for impl in fastest if impl in places)
    for impl in sorted(order, key=lambda impl: impl not in fastest):
        family = impl.partition(".")[0]
        if impl not in places:
            avoided = {at: apart[at] if impl in fastest else uses_in_family[family, at] for at in range(len(PALETTE))}
            colour = min(avoided, key=lambda at: (avoided[at], uses[at], at))
            apart[colour] += 1
            # The next layer with this colour has another marker and another dash pattern.
            places[impl] = colour + len(PALETTE) * uses[colour]
            uses_in_family[family, colour] += 1
            uses[colour] += 1
    return {impl: nth_look(places[impl]) for impl in order}
