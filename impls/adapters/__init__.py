"""Kernels from optional third-party packages, each with the weights of one of the project's layers."""
