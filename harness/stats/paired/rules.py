"""The decision rules of a comparison: threshold, error rates and looks."""

import math
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Rules:
    """The threshold, the error rates and the looks of a comparison.

    - The threshold, as a share (`floor`). A change no larger than this does not matter.
    - The error rate (`alpha`). Among cases reported as changed, it bounds the share of those that have not changed by
      more than the threshold. It also bounds how often a case that has changed is called equivalent.
    - The error rate of the second measurement, that of flagged cases (`alpha_again`). A false result counts only if
      both measurements err: in either direction, that is at most one run in 200.
    - The numbers of blocks after which a case is tested, and stopped if it is decided (`looks`).
    """

    floor: float = 0.03
    alpha: float = 0.05
    alpha_again: float = 0.1
    looks: tuple[int, ...] = (8, 12, 20, 36, 64, 120)

    @property
    def again(self) -> "Rules":
        """The rules of the second measurement."""
        return replace(self, alpha=self.alpha_again)

    @property
    def log_floor(self) -> float:
        """The threshold as a log ratio, the same for slower and faster."""
        return math.log1p(self.floor)

    @property
    def most_blocks(self) -> int:
        """The maximum number of blocks of a case in one measurement."""
        return self.looks[-1]
