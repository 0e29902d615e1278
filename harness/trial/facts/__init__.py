"""Deterministic facts of one call: work, depth, traffic, memory, and the kernel that ran. Never in a timed trial."""
