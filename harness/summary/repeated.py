"""Rows that are in a run twice, as if copied: of the same case, purpose and round. Each counts once, and is told."""

from collections.abc import Iterator
from pathlib import Path

from harness.case import Case
from harness.store import NAMED
from harness.summary.fold import Fold
from harness.summary.trials import Trials


def repeated(run: Path, fold: Fold, trials: Trials) -> list[str]:
    """A notice for each row that is there a second time; one for all beyond the first few."""
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
