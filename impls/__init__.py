"""Sequence layers that map `(b, n, d)` to `(b, n, d)`; those in `sdpa` map `(b, n, 3d)` to `(b, n, d)`.

In shapes and formulas, b is the batch size, n the number of tokens, d the model width, and h the number of heads. m is
the number of tokens of a source.

The layers import nothing from the harness. Those in `adapters` need another package, all others only torch.
`registry.py` lists the layers as data.
"""
