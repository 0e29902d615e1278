"""Fixtures of tests/ that benchmarks use as well."""

from conftest import _gradients_as_before, case, runner

__all__ = ["_gradients_as_before", "case", "runner"]
