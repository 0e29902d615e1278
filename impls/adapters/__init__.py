"""Kernels of packages that a user may have installed, each behind the weights of a rung of ours. None is needed."""
