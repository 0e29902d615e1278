"""Compare the costs of a series before and now: whether they increased, or rise less from size to size."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from harness.case import Case
from harness.gate.baseline import Baseline

_COLUMN = {"memory": "peak_bytes", "flops": "flops", "depth": "depth"}
_AXIS = {"n": "seq_len", "d": "d_model"}


def rises_no_more(was: Baseline, now: Baseline, cases: Sequence[Case], metric: str, axis: str) -> bool:
    """Whether no cost increased and no step to the next size along `axis` became larger.

    The exponent may still be larger: attention without its projections has only the n² term left. For time the answer
    is always False, because `check` compares no times.
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
    """(before, now) of each case for which both are known."""
    found = {}
    for case in cases:
        before, after = (getattr(of.cases[case], column) for of in (was, now))
        if before is not None and after is not None:
            found[case] = (before, after)
    return found


def _without(case: Case, axis: str) -> Case:
    """A key that is equal for all cases that differ only along the axis."""
    return replace(case, seq_len=1) if axis == "n" else replace(case, d_model=1)
