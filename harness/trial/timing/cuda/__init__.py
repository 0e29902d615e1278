"""Timing on a GPU: events in a queue that is held back, a cold L2 cache, and readings of the GPU's clock rates."""
