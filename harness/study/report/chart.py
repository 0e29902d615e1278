"""A chart as data: its axes, curves of points, guides, and how each layer is drawn.

`plots` draws a chart as a file, and the scripts of `html` draw the same one on the page. A layer has the same colour,
marker and dashes in all of them.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.core.model import formatting
from harness.core.results.columns import CaseResult
from harness.study.laws.roofline import WIDEST
from impls.registry import IMPLS

# The most measured n that ticks name. Of more, every k-th is named, and always the largest.
_MOST_SIZES = 8
# The most ticks of an axis with denser and wider ladders, and how far its range reaches beyond the values, as a factor.
_MOST_TICKS, ROOM = 8, 1.6
# Ladders of round values for ticks, the densest first.
Ladders = Sequence[Sequence[float]]
_POWERS = range(-323, 309)
DECIMAL = tuple([float(f"{digit}e{power}") for power in _POWERS for digit in digits] for digits in ("125", "13", "1"))
BINARY = tuple([2.0**power for power in range(-1024, 1024, step)] for step in (1, 2, 4))


@dataclass(frozen=True)
class Axis:
    """A logarithmic axis: its range, its ticks as values with their texts, and what is written beside it."""

    range: tuple[float, float]
    ticks: Sequence[tuple[float, str]]
    title: str = ""


def size_axis(sizes: Iterable[float], title: str = "sequence length n") -> Axis:
    """An axis that names measured sizes only."""
    measured = sorted(set(sizes))
    named = measured[:: -math.ceil(len(measured) / _MOST_SIZES)]
    room = 1.25 if len(measured) > 1 else 2.0
    ticks = [(n, f"{n:.12g}") for n in reversed(named)]
    return Axis((measured[0] / room, measured[-1] * room), ticks, title)


def value_axis(
    values: Collection[float],
    text: formatting.NumberText,
    title: str = "",
    room: float = ROOM,
    ladders: Ladders = DECIMAL,
) -> Axis:
    """An axis that contains all `values`, with the ticks of the densest ladder that is not too dense."""
    lo, hi = min(values) / room, max(values) * room
    for ladder in ladders:
        first, last = bisect_left(ladder, lo), bisect_right(ladder, hi)
        if last - first <= _MOST_TICKS:
            break
    if last - first < 2:
        # The values are close together: extend the range to the next tick on either side.
        first, last = first - 1, last + 1
        lo, hi = ladder[first], ladder[last - 1]
    return Axis((lo, hi), [(tick, formatting.round_text(text(tick))) for tick in ladder[first:last]], title)


# The ends of an interval, None if they are not known.
Ends = tuple[float | None, float | None]


@dataclass(frozen=True)
class Point:
    """One case in a chart: its place, the ends of its interval along y (None if not known), and what to say about it.

    It is `hollow` if its interval is too wide to compare it with others. `n` is its sequence length. `host` names those
    that timed it, and `probe_s` is the time of the reference workload, as in its line.
    """

    x: float
    y: float
    lo: float | None = None
    hi: float | None = None
    hollow: bool = False
    text: str = ""
    n: int = 0
    host: str | None = None
    probe_s: float | None = None

    @property
    def place(self) -> tuple[float, float]:
        """Its `x` and `y`."""
        return self.x, self.y


@dataclass(frozen=True)
class Curve:
    """The cases of one layer in a chart, in ascending order along the axis or of n."""

    impl: str
    points: Sequence[Point]

    @property
    def x(self) -> list[float]:
        """Where its points are along the axis."""
        return [point.x for point in self.points]

    @property
    def y(self) -> list[float]:
        """The values of its points."""
        return [point.y for point in self.points]

    @property
    def places(self) -> list[tuple[float, float]]:
        """The `x` and `y` of its points."""
        return [point.place for point in self.points]


@dataclass(frozen=True)
class FailedCase:
    """A case without a cost. `y` is where it would have been; None if nothing else of its layer was measured."""

    impl: str
    x: int
    y: float | None
    status: str
    text: str


@dataclass(frozen=True)
class Guide:
    """A grey line through corners, and a band from there up to `top`. Two texts are above its first and last corner."""

    x: Sequence[float]
    y: Sequence[float]
    top: Sequence[float] = ()
    texts: Sequence[str] = ()


@dataclass(frozen=True)
class Chart:
    """What one pair of axes shows, with its title and a message that says what to see (empty if nothing is sure).

    `n` is the sequence length that the guides belong to, if it is a single one.
    """

    x: Axis
    y: Axis
    curves: Sequence[Curve]
    guides: Sequence[Guide] = ()
    failed: Sequence[FailedCase] = ()
    title: str = ""
    message: str = ""
    n: int = 0


def too_wide(lo: float | None, hi: float | None) -> bool:
    """Whether an interval is known, and too wide to compare its value with others."""
    return lo is not None and hi is not None and hi > WIDEST * lo


BARS = "bars: 95 % confidence intervals"
BEYOND = "arrow heads: beyond the axis"
HOLLOW = f"hollow: not to be compared, the interval spans more than a factor of {WIDEST:.0f}"


def bars_caption(curves: Iterable[Curve], axis: Axis, drawn: bool = True) -> str:
    """What to say about the intervals of curves along an axis; empty if nothing is to be said.

    Without `drawn` bars, only the markers tell which intervals are too wide.
    """
    low, high = axis.range
    points = [point for curve in curves for point in curve.points]
    intervals = [(point.lo, point.hi) for point in points if point.lo is not None and point.hi is not None]
    captions = []
    if intervals and drawn:
        goes_on = any(lo < low or hi > high for lo, hi in intervals)
        captions.append(f"{BARS} ({BEYOND})" if goes_on else BARS)
    if any(point.hollow for point in points):
        captions.append(HOLLOW)
    return "; ".join(captions)


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
