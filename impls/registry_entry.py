"""One registry entry: a layer described as data. Importing this file does not import torch."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

# Some fields of an entry by name, which several entries share.
Claims = dict[str, Any]


@dataclass(frozen=True)
class Impl:
    """One implementation of a sequence layer.

    `target` is `module:Class`. The layer is built as `Class(d_model=…, num_heads=…, **options)`.
    `reference` names a class with the same `state_dict`, built with `reference_options`. Its float64 output defines the
    correct result.

    Six fields hold what theory claims for one sequence; an empty string claims nothing. Three are exact FLOP counts,
    with a multiply-add counted as 2 and elementwise operations ignored:

    - `work`: the forward pass.
    - `work_train`: forward and backward pass together.
    - `work_decode`: one decoded token, with n tokens in total.

    Three are orders of growth (Vaswani et al. 2017, table 1):

    - `memory`: words alive at the peak of the forward pass, beyond weights and input.
    - `depth`: sequential operations.
    - `path`: operations on the longest path between two positions.

    The backward pass computes each product twice, once for each factor, with two exceptions. No gradient flows back
    into h_0, which saves the recurrence one product (2d²). A kernel that did not store its scores computes them again.
    The backward pass of fused attention therefore has 5 products of n²d instead of 4.

    A claim may contain the letter of a further size that the constructor takes. `own_sizes` is for layers whose default
    is not the usual one: the ratio of both, by the constructor's name.

    `axes` repeats those that the class declares, each with a letter and a default: they stand in claims.

    `kind` is the layer's row of table 1, one of `KINDS`, or empty.
    `compiled`: the layer's first call compiles.
    `package`: the import name of a package that is required beside torch.
    """

    name: str
    target: str
    reference: str
    summary: str
    work: str = ""
    work_train: str = ""
    work_decode: str = ""
    memory: str = ""
    depth: str = ""
    path: str = ""
    kind: str = ""
    has_heads: bool = True
    compiled: bool = False
    package: str = ""
    own_sizes: dict[str, Fraction] = field(default_factory=dict)
    axes: dict[str, tuple[str, int]] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    reference_options: dict[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """The part of the name before the first dot."""
        return self.name.split(".", 1)[0]


# The rows of table 1.
KINDS = ("self-attention", "recurrent", "convolutional", "restricted")
