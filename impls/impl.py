"""One entry of the registry: a layer as data. Importing this file does not import torch."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Impl:
    """One implementation of a sequence layer.

    `target` is `module:Class`; it is built as `Class(d_model=…, num_heads=…, **options)`.
    `reference` names the class, with the same `state_dict`, that says in float64 what it must compute; it is built with
    `reference_options`.
    What theory claims of it, for one sequence: `work` of a forward pass, `work_train` of forward and backward, and
    `work_decode` of one token with n in all, exactly, a multiply-add being 2 and elementwise work not counted; and by
    order `memory` (words alive at the forward pass's peak beyond weights and input), `depth` (sequential operations)
    and `path` (operations on the longest way between two positions). See Vaswani et al. 2017, table 1. A claim that is
    empty is not made.

    Backward does each product twice, once for either factor, with two exceptions. No gradient goes back into h_0, which
    saves the recurrence one product (2d²). And a kernel that did not write down its scores computes them again, so that
    the backward pass of fused attention has 5 products of n²d where it would have 4.

    `kind` is the row of table 1 that it belongs to, `KINDS`, or empty. `compiled`: its first call compiles.
    `package`: what must be installed beside torch, by the name that it is imported as.
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
    options: dict[str, Any] = field(default_factory=dict)
    reference_options: dict[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """The part of the name before the first dot."""
        return self.name.split(".", 1)[0]


# The rows of table 1.
KINDS = ("self-attention", "recurrent", "convolutional", "restricted")
