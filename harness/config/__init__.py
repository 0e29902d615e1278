"""From `conf/` and the command line to a checked configuration: Hydra composes, once a sweep."""

from harness.config.compose import compose
from harness.config.schema import Precision, SweepConfig

__all__ = ["Precision", "SweepConfig", "compose"]
