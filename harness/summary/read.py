"""Fold all rows of a run. Several processes share the work of a large run if there are several processors."""

import os
from contextlib import ExitStack
from pathlib import Path

from harness.store import copies, notices, parts
from harness.store.copies import size_of
from harness.summary.fold import Fold
from harness.summary.helper import Helper, fold_share

# A helper process takes 0.2 s to start. In that time, one process reads this many bytes of rows.
_WORTH_A_HELPER = 2**25
# Merging a fold takes a tenth of the time of reading its rows, so more processes do not pay.
_MOST = 8


def read_run(run: Path, processes: int | None = None) -> tuple[Fold, list[str]]:
    """Fold the rows of a run. Return the fold and a notice for each invalid line and each copied file.

    By default, the number of `processes` depends on the size of the rows and the number of processors.
    """
    first, *others = parts(run, processes or _as_many_as_pay(run))
    with ExitStack() as stack:
        helpers = [stack.enter_context(Helper(share)) for share in others]
        fold, readings = fold_share(first)
        for helper in helpers:
            later, more = helper.result()
            fold.follow(later)
            readings += more
    return fold, [*copies(run), *notices(readings)]


def _as_many_as_pay(run: Path) -> int:
    size = sum(size_of(path) for path in (run / "rows").glob("*.jsonl"))
    return max(1, min(_processors(), size // _WORTH_A_HELPER, _MOST))


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
