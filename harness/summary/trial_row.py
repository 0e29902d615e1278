"""A timed trial's row, as statistics want it."""

from collections.abc import Mapping
from typing import Any

from harness.stats.trials import Trial


def trial_of(row: Mapping[str, Any]) -> Trial:
    """The trial that the row of a timed trial holds. Raises KeyError for any other row."""
    return Trial(row["samples_s"], row["wall_s"], row["pulse_s"])
