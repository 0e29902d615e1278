"""Deterministic facts of one call: FLOPs, depth, traffic, memory, and the kernel that ran.

They are never taken in a timed trial.
"""
