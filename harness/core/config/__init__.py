"""Compose `conf/` and the command line into a checked configuration. Hydra composes once per sweep."""

from .compose import compose
from .schema import Precision, SweepConfig

__all__ = ["Precision", "SweepConfig", "compose"]
