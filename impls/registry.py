"""Every layer the project ships, as data. Importing this file does not import torch.

To add a layer: write its file, add its entry. Nothing else needs to know.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Impl:
    """One implementation of a sequence layer.

    `target` is `module:Class`; it is built as `Class(d_model=…, num_heads=…, **options)`.
    `reference` names the class, with the same `state_dict`, that says in float64 what it must compute.
    What theory claims of it, for one sequence: `work` of a forward pass and `work_train` of forward and backward,
    exactly, a multiply-add being 2 and elementwise work not counted; and by order `memory` (words alive at the
    forward pass's peak beyond weights and input), `depth` (sequential operations) and `path` (operations on the
    longest way between two positions). See Vaswani et al. 2017, table 1.

    Backward does each product twice, once for either factor, with two exceptions. No gradient goes back into h_0, which
    saves the recurrence one product (2d²). And a kernel that did not write down its scores computes them again, so that
    the backward pass of fused attention has 5 products of n²d where it would have 4.
    """

    name: str
    target: str
    reference: str
    summary: str
    work: str
    work_train: str
    memory: str
    depth: str
    path: str
    has_heads: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> str:
        """The part of the name before the first dot."""
        return self.name.split(".", 1)[0]


_ATTENTION = "impls.attention.reference:AttentionReference"
_ELMAN = "impls.rnn.reference:ElmanReference"

IMPLS: dict[str, Impl] = {
    impl.name: impl
    for impl in (
        Impl(
            "rnn.elman",
            "impls.rnn.elman:Elman",
            _ELMAN,
            "Elman network, the loop over time in Python",
            work="4nd²",
            work_train="12nd² − 2d²",
            memory="nd",
            depth="n",
            path="n",
            has_heads=False,
        ),
        Impl(
            "rnn.torch",
            "impls.rnn.torch_rnn:TorchRNN",
            _ELMAN,
            "the same network as torch.nn.RNN",
            work="4nd²",
            work_train="12nd² − 2d²",
            memory="nd",
            depth="n",
            path="n",
            has_heads=False,
        ),
        Impl(
            "attention.naive",
            "impls.attention.naive:NaiveAttention",
            _ATTENTION,
            "one head at a time, n × n scores in memory",
            work="8nd² + 4n²d",
            work_train="24nd² + 12n²d",
            memory="n² + nd",
            depth="1",
            path="1",
        ),
        Impl(
            "attention.packed",
            "impls.attention.packed:PackedAttention",
            _ATTENTION,
            "all heads in one product, h scores in memory",
            work="8nd² + 4n²d",
            work_train="24nd² + 12n²d",
            memory="hn² + nd",
            depth="1",
            path="1",
        ),
        Impl(
            "attention.fused",
            "impls.attention.fused:FusedAttention",
            _ATTENTION,
            "one flash kernel, no scores in memory",
            work="8nd² + 4n²d",
            work_train="24nd² + 14n²d",
            memory="nd",
            depth="1",
            path="1",
            options={"backend": "flash"},
        ),
    )
}
