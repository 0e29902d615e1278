"""Notices for rows that appear twice in a run, with the same case, purpose and round. Each of them counts once."""

from collections.abc import Iterator
from pathlib import Path

from harness.case import Case
from harness.store import NAMED
from harness.summary.fold import Fold
from harness.summary.trials import Trials


def repeated(run: Path, fold: Fold, trials: Trials) -> list[str]:
    """A notice for each of the first `NAMED` repeated rows, and one that counts the others."""
    cases = list(fold.cases)
    found = [f"{Case(*cases[case])}, {what}" for case, what in _found(fold, trials)]
    notices = [f"{run / 'rows'}: {one}: there twice, counts once" for one in found[:NAMED]]
    more = len(found) - len(notices)
    return [*notices, f"{run / 'rows'}: {more:,} more rows there twice, each counts once"] if more else notices


def _found(fold: Fold, trials: Trials) -> Iterator[tuple[int, str]]:
    for case, number in zip(*trials.repeated, strict=True):
        yield int(case), f"time, round {number}"
    for (case, purpose, _), times in fold.others.items():
        for _ in range(times - 1):
            yield case, purpose
