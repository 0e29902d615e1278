"""Deterministic facts of one call: FLOPs, depth, traffic, memory, and the kernel that ran.

Never taken in a timed trial.
"""
