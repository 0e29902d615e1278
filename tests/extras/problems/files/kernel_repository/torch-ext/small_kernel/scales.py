"""A second file of the kernel."""

SCALE = 0.5
