"""Registry entry of the recurrent layer whose first call compiles. Importing this file does not import torch."""

from impls.impl import Impl

COMPILED_RNN = (
    Impl(
        "rnn.compiled",
        "impls.rnn.compiled:CompiledElman",
        "impls.rnn.reference:ElmanReference",
        "Elman network, the loop compiled in blocks of 16 steps",
        work="4nd²",
        work_train="12nd² − 2d²",
        work_decode="4d²",
        memory="nd",
        depth="n",
        path="n",
        kind="recurrent",
        has_heads=False,
        compiled=True,
    ),
)
