"""How well cost models predicted cases that they were not fitted to."""

from collections.abc import Sequence

from harness.findings.holdout import HeldOut, scores
from harness.report import units
from harness.report.said.metrics import NAMES


def sentences(held_out: Sequence[HeldOut]) -> list[str]:
    """A sentence for each metric: how large the errors are, and how many cases lie in the prediction interval."""
    said = []
    for score in scores(held_out):
        worst = max((one for one in held_out if one.metric == score.metric), key=lambda one: abs(one.error))
        said.append(
            f"Laws fitted to a quarter of the largest n and below predict the {NAMES[score.metric]} there to within "
            f"{units.share(score.error)} (median; at worst {units.share(abs(worst.error))}: {worst.impl} n={worst.n} "
            f"d={worst.d} h={worst.h}); {score.covered} of {score.predictions} cases lie in the predicted interval."
        )
    return said


def signed(error: float) -> str:
    """A relative error with its sign: `+12 %`, `−3.1 %`."""
    return ("−" if error < 0 else "+") + units.share(abs(error))
