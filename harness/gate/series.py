"""The cases of a series side by side, before and now: whether its cost became more, or rises less."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from harness.case import Case
from harness.gate.baseline import Baseline

_COLUMN = {"memory": "peak_bytes", "flops": "flops", "depth": "depth"}
_AXIS = {"n": "seq_len", "d": "d_model"}


def rises_no_more(was: Baseline, now: Baseline, cases: Sequence[Case], metric: str, axis: str) -> bool:
    """Whether the cost is at no size more than it was, and from no size to the next along `axis` rises by more.

    Its exponent may then be larger all the same: of attention without its projections there is n² alone. Of time, of
    which no number is compared, it is never known.
    """
    if metric not in _COLUMN:
        return False
    costs = _costs(was, now, cases, _COLUMN[metric])
    rows: dict[Case, list[Case]] = {}
    for case in sorted(costs, key=lambda case: getattr(case, _AXIS[axis])):
        rows.setdefault(_without(case, axis), []).append(case)
    return all(after <= before for before, after in costs.values()) and all(
        costs[large][1] - costs[small][1] <= costs[large][0] - costs[small][0]
        for row in rows.values()
        for small, large in pairwise(row)
    )


def _costs(was: Baseline, now: Baseline, cases: Sequence[Case], column: str) -> dict[Case, tuple[int, int]]:
    """(before, now) of each case of which both are known."""
    found = {}
    for case in cases:
        before, after = (getattr(of.cases[case], column) for of in (was, now))
        if before is not None and after is not None:
            found[case] = (before, after)
    return found


def _without(case: Case, axis: str) -> Case:
    """The same for all cases that differ along the axis alone."""
    return replace(case, seq_len=1) if axis == "n" else replace(case, d_model=1)
