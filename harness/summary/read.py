"""All rows of a run, folded: by several processes where there are many rows and several processors."""

import os
from contextlib import ExitStack
from pathlib import Path

from harness.store import copies, notices, parts
from harness.store.copies import size_of
from harness.summary.fold import Fold
from harness.summary.helper import Helper, fold_share

# A helper takes a fifth of a second to start, in which so many bytes of rows are read.
_WORTH_A_HELPER = 2**25
# What is folded together takes a tenth of the time that it took to read: more of them do not pay.
_MOST = 8


def read_run(run: Path, processes: int | None = None) -> tuple[Fold, list[str]]:
    """The rows of a run, and a notice for each line that is none, or file that is a copy of another.

    In as many `processes` as pay, if not said.
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
