"""Sizes that are read, and not run."""

SHAPES = [
    {"T": 16, "width": 4, "out": 6},
    {"T": 32, "width": 8, "out": 20},
]
raise AssertionError("this file was run")
