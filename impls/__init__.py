"""Sequence layers that map `(b, n, d)` to `(b, n, d)`; those in `sdpa` map `(b, n, 3d)` to `(b, n, d)`.

The layers need only torch and import nothing from the harness. `registry.py` lists them as data. Every other file
implements one idea.
"""
