"""`crossovers.csv`: from which n on one impl costs more than another."""

import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from harness import catalog
from harness.findings.series import Point, Setting, series_of, setting_of
from harness.scaling.crossover import gap, overtaking
from harness.summary import Line
from impls.registry import IMPLS

if TYPE_CHECKING:
    import pandas as pd

METRICS = ("time", "memory")


@dataclass(frozen=True)
class Crossover:
    """From `seq_len` on `slower` costs more than `faster`, which below it costs more or as much.

    `metric` is `time` or `memory`. `seq_len` is None where it does not happen up to `measured_to`, the largest n that
    both were measured at (`seq_len_lo` is then that n: not below it); 0 where it is so at every n measured.

    Else it lies between `seq_len_lo` and `seq_len_hi`: where the interval of the costs' ratio leaves 1 on the one side,
    and where it has left it on the other. Where noise alone could make a crossing, `seq_len` is None too: `slower` is
    surely so from `seq_len_hi` on, if that is a number, and surely not at `seq_len_lo`, if that is not 0.
    """

    slower: str
    faster: str
    setting: Setting
    metric: str
    d_model: int
    num_heads: int
    batch_size: int
    seq_len: float | None
    seq_len_lo: float | None
    seq_len_hi: float | None
    measured_from: int
    measured_to: int

    @property
    def decided(self) -> bool:
        """Whether it is known: a crossing, none below the largest n, or above at every n."""
        return self.seq_len is not None or self.seq_len_lo == self.measured_to

    def __str__(self) -> str:
        """In words, without the names."""
        at_all = f"n = {self.measured_from}" + (
            f" to {self.measured_to}" if self.measured_to > self.measured_from else ""
        )
        if self.seq_len == 0:
            return f"at every n measured, {at_all}" if self.measured_to > self.measured_from else f"at {at_all}"
        if self.seq_len is not None:
            reach = f" ({self.seq_len_lo:.0f} to {self.seq_len_hi:.0f})"
            return f"from n = {self.seq_len:.0f}{reach if self.seq_len_lo != self.seq_len_hi else ''} on"
        if self.seq_len_lo == self.measured_to:
            return f"not below {self.measured_to}" if self.measured_to > self.measured_from else f"not at {at_all}"
        if self.seq_len_hi is not None:
            return f"undecided: from n = {self.seq_len_hi:.0f} on; below, the intervals overlap"
        if self.seq_len_lo:
            return f"undecided: not at n = {self.seq_len_lo:.0f}; above, the intervals overlap"
        return f"undecided: the intervals overlap at {at_all}"


# One impl's costs by number of heads and n.
_Costs = dict[int, dict[int, Point]]


def crossovers(lines: Iterable[Line]) -> list[Crossover]:
    """For every ordered pair of impls measured at a common n, each metric, setting, batch size and (d, h).

    A layer without heads is compared with the others at every h of theirs.
    """
    of_run = list(lines)
    without = headless(of_run)
    groups: dict[tuple[Setting, int, int], dict[str, list[Line]]] = {}
    for line in of_run:
        group = groups.setdefault((setting_of(line), line.batch_size, line.d_model), {})
        group.setdefault(line.impl, []).append(line)
    found = []
    for (setting, batch_size, d_model), members in groups.items():
        for metric in METRICS:
            costs = {impl: _costs(own, metric) for impl, own in members.items()}
            for slower, faster in itertools.permutations(costs, 2):
                for h in _common_heads(slower, faster, costs, without):
                    of_slower = _at(costs[slower], h, slower in without)
                    of_faster = _at(costs[faster], h, faster in without)
                    both = sorted(of_slower.keys() & of_faster.keys())
                    if both:
                        over = overtaking([gap(n, _known(of_slower[n]), _known(of_faster[n])) for n in both])
                        pair = (slower, faster, setting, metric, d_model, h, batch_size)
                        found.append(Crossover(*pair, over.n, over.lo, over.hi, both[0], both[-1]))
    return found


def headless(lines: Iterable[Line]) -> set[str]:
    """The impls of a run that have no heads: of ours those that the registry says so of.

    Somebody's own, if it was measured at one head alone in a run where others were measured at more. If none was, it is
    not known, and the impl is taken for one with heads.
    """
    heads: dict[str, set[int]] = {}
    for line in lines:
        heads.setdefault(line.impl, set()).add(line.num_heads)
    several = any(seen != {1} for seen in heads.values())
    return {
        impl
        for impl, seen in heads.items()
        if (not catalog.traits(impl).has_heads if impl in IMPLS else several and seen == {1})
    }


def _costs(lines: Iterable[Line], metric: str) -> _Costs:
    costs: _Costs = {}
    series = series_of(lines, metric)
    for point in series.points if series else ():
        costs.setdefault(point.h, {})[point.n] = point
    return costs


def _common_heads(one: str, other: str, costs: Mapping[str, _Costs], without: Collection[str]) -> list[int]:
    with_heads = [set(costs[impl]) for impl in (one, other) if impl not in without]
    return sorted(set.intersection(*with_heads) if with_heads else {1})


def _at(costs: _Costs, h: int, is_headless: bool) -> dict[int, Point]:
    return costs.get(1 if is_headless else h, {})


def _known(point: Point) -> tuple[float, float, float]:
    """Nothing allocated is compared as one byte: a ratio needs two numbers above 0."""
    return (point.value, point.lo, point.hi) if point.value > 0 else (1.0, 1.0, 1.0)


_FIRST = ("slower", "faster", "metric", "d_model", "num_heads", "seq_len", "seq_len_lo", "seq_len_hi")
_SETTING = tuple(field.name for field in fields(Setting))
COLUMNS = (*_FIRST, "batch_size", *_SETTING, "measured_from", "measured_to", "in_words")


def crossovers_table(found: Iterable[Crossover]) -> "pd.DataFrame":
    """The crossovers as a tidy DataFrame; `in_words` says what the numbers mean."""
    import pandas as pd

    rows = [{**vars(one), **asdict(one.setting), "in_words": str(one)} for one in found]
    return pd.DataFrame(rows, columns=list(COLUMNS))
