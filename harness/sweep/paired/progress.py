"""What the screen shows while pairs are timed: a line now and then, drawn between blocks and never beside one."""

import time

from rich.console import Console

from harness.sweep.paired.comparison import Pair

_EVERY_S = 10.0


class PairScreen:
    """Tells of rounds and blocks on `console`; `pairs` is how many there are."""

    def __init__(self, pairs: int, console: Console) -> None:
        self._pairs, self._console = pairs, console
        self._began = self._last = time.monotonic()
        self._round = ""
        self._blocks = 0

    def round(self, stage: str, number: int) -> None:
        """A round begins: of the first measurement, or of what that flagged."""
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
