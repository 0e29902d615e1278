"""Measure two sides, base and head, at the same time in interleaved turns. Each side has its own processes."""
