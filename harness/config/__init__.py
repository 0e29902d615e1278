"""Compose `conf/` and the command line into a checked configuration. Hydra composes once per sweep."""

from harness.config.compose import compose
from harness.config.schema import Precision, SweepConfig

__all__ = ["Precision", "SweepConfig", "compose"]
