"""Measure what sequence layers cost: time, memory, work and sequential depth over n, h and d."""

__version__ = "0.1.0"
