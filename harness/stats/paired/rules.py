"""How a comparison decides, and how much evidence it asks for."""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Rules:
    """What is asked of the blocks.

    `floor`: a change no larger than this share is none that matters. `alpha`: how often a case that has not changed
    by more may be called changed (over all cases, the share of false ones among those called so), or one that has
    be called equivalent. `alpha_again` is the same of what was flagged and is measured a second time: both must err for
    a false one to count, which in either direction is then one run in 200 at most. `looks`: after so many blocks a case
    is looked at, and stopped if it is sure.
    """

    floor: float = 0.03
    alpha: float = 0.05
    alpha_again: float = 0.1
    looks: tuple[int, ...] = (8, 12, 20, 36, 64, 120)

    @property
    def again(self) -> "Rules":
        """The rules of the second time."""
        return replace(self, alpha=self.alpha_again)

    @property
    def log_floor(self) -> float:
        """The floor as a log ratio: as much slower as faster."""
        return math.log1p(self.floor)

    @property
    def most_blocks(self) -> int:
        """Nobody is measured more often than this."""
        return self.looks[-1]
