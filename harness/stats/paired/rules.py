"""How a comparison decides, and how much evidence it asks for."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """What is asked of the blocks.

    `floor`: a change no larger than this share is none that matters. `alpha`: how often a case that has not changed
    by more may be called changed (over all cases, the share of false ones among those called so), or one that has
    be called equivalent. `looks`: after so many blocks a case is looked at, and stopped if it is sure.
    """

    floor: float = 0.03
    alpha: float = 0.05
    looks: tuple[int, ...] = (8, 12, 18, 27, 40)

    @property
    def log_floor(self) -> float:
        """The floor as a log ratio: as much slower as faster."""
        return math.log1p(self.floor)

    @property
    def most_blocks(self) -> int:
        """Nobody is measured more often than this."""
        return self.looks[-1]
