"""Decide whether one side is slower than the other, from paired blocks.

In a block, both sides meet the machine in the same state. Input and output are numbers.
"""
