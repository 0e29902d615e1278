"""Sequence layers, `(b, n, d) -> (b, n, d)`, of `sdpa` `(b, n, 3d) -> (b, n, d)`: torch only, nothing of the harness.

`registry.py` lists them as data; each other file holds one idea.
"""
