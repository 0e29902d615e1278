"""The progress display of a comparison: a line every ten seconds at most, printed only between blocks."""

import time

from rich.console import Console

from harness.sweep.paired.comparison import Pair

_EVERY_S = 10.0


class PairScreen:
    """Prints rounds and blocks on `console`. `pairs` is the number of pairs."""

    def __init__(self, pairs: int, console: Console) -> None:
        self._pairs, self._console = pairs, console
        self._began = self._last = time.monotonic()
        self._round = ""
        self._blocks = 0

    def round(self, stage: str, number: int) -> None:
        """A round begins, in the first measurement or in the second one of the flagged pairs."""
        self._round = f"round {number}" if stage == "first" else f"again, round {number}"

    def block(self, pair: Pair) -> None:
        """A block has been measured."""
        self._blocks += 1
        now = time.monotonic()
        if now - self._last >= _EVERY_S:
            self._last = now
            pairs = "one pair" if self._pairs == 1 else f"{self._pairs} pairs"
            said = f"{now - self._began:5.0f} s  {self._round}  {self._blocks} blocks of {pairs}  {pair.head}"
            self._console.out(said, highlight=False)
