"""Registry entries of the layers with a matrix state. Importing this file does not import torch."""

from impls.registry_entry import Claims, Impl

_SSD = "impls.linear.reference:SSDReference"
_GATED_DELTA = "impls.linear.reference:GatedDeltaReference"
_MLSTM = "impls.linear.reference:MLSTMReference"
_RWKV7 = "impls.linear.reference:RWKV7Reference"

# A chunk waits for the state of the one before it.
_SEQUENTIAL: Claims = {"depth": "n", "path": "n"}

# The recurrent form of each layer comes first.
LINEAR_TIME = (
    Impl(
        "linear.ssd.recurrent",
        "impls.linear.ssd:RecurrentSSD",
        _SSD,
        "Mamba-2's layer (SSD), one token after another",
        # A state of s rows for each head.
        work="4nd² + 8snd + 2hnd",
        work_train="12nd² + 24snd + 6hnd",
        work_decode="4d² + 8sd + 2hd",
        axes={"state": ("s", 64)},
        memory="nd + sn + sd",
        **_SEQUENTIAL,
    ),
    Impl(
        "linear.ssd.chunked",
        "impls.linear.ssd:ChunkedSSD",
        _SSD,
        "the same in chunks of 32",
        # The heads share C Bᵀ: 2cs for each token.
        work="4nd² + 8snd + 2cnd + 2hnd + 2csn",
        work_train="12nd² + 24snd + 6cnd + 6hnd + 6csn",
        work_decode="4d² + 8sd + 2hd",
        axes={"state": ("s", 64), "chunk": ("c", 32)},
        memory="nd + chn + shn + snd/c + sd",
        **_SEQUENTIAL,
    ),
    Impl(
        "linear.gated_delta.recurrent",
        "impls.linear.gated_delta:RecurrentGatedDelta",
        _GATED_DELTA,
        "gated DeltaNet, one token after another",
        work="8nd² + 4hnd + 6nd²/h",
        work_train="24nd² + 12hnd + 18nd²/h",
        work_decode="8d² + 4hd + 6d²/h",
        memory="nd + d²/h",
        **_SEQUENTIAL,
    ),
    Impl(
        "linear.gated_delta.chunked",
        "impls.linear.gated_delta:ChunkedGatedDelta",
        _GATED_DELTA,
        "the same in chunks of 32",
        # Five products of 2cnd, and for each row of the inverse 2c² in each head.
        work="8nd² + 4hnd + 10cnd + 2c²hn + 6nd²/h",
        work_train="24nd² + 12hnd + 30cnd + 6c²hn + 18nd²/h",
        work_decode="8d² + 4hd + 6d²/h",
        axes={"chunk": ("c", 32)},
        memory="nd + chn + nd²/h/c + d²/h",
        **_SEQUENTIAL,
    ),
    Impl(
        "linear.mlstm.recurrent",
        "impls.linear.mlstm:RecurrentMLSTM",
        _MLSTM,
        "xLSTM's mLSTM, one token after another",
        work="10nd² + 4hnd + 4nd²/h",
        work_train="30nd² + 12hnd + 12nd²/h",
        work_decode="10d² + 4hd + 4d²/h",
        memory="nd + d²/h",
        **_SEQUENTIAL,
    ),
    Impl(
        "linear.mlstm.chunked",
        "impls.linear.mlstm:ChunkedMLSTM",
        _MLSTM,
        "the same in chunks of 64",
        work="10nd² + 4hnd + 4cnd + 4nd²/h",
        work_train="30nd² + 12hnd + 12cnd + 12nd²/h",
        work_decode="10d² + 4hd + 4d²/h",
        axes={"chunk": ("c", 64)},
        memory="nd + chn + nd²/h/c + d²/h",
        **_SEQUENTIAL,
    ),
    Impl(
        "linear.rwkv7.recurrent",
        "impls.linear.rwkv7:RecurrentRWKV7",
        _RWKV7,
        "RWKV-7's time mixing, one token after another",
        # Three narrow networks of r channels. No gradient flows back into H_0.
        work="8nd² + 12rnd + 8nd²/h",
        work_train="24nd² + 36rnd + 24nd²/h − 2d²/h",
        work_decode="8d² + 12rd + 8d²/h",
        axes={"rank": ("r", 32)},
        memory="nd + rn + d²/h",
        **_SEQUENTIAL,
    ),
    Impl(
        "linear.rwkv7.chunked",
        "impls.linear.rwkv7:ChunkedRWKV7",
        _RWKV7,
        "the same in chunks of 16",
        # Nine products of 2cnd, and for each row of the inverse 2c² in each head.
        work="8nd² + 12rnd + 18cnd + 2c²hn + 8nd²/h",
        work_train="24nd² + 36rnd + 54cnd + 6c²hn + 24nd²/h",
        work_decode="8d² + 12rd + 8d²/h",
        axes={"rank": ("r", 32), "chunk": ("c", 16)},
        memory="nd + chn + rn + nd²/h/c + d²/h",
        **_SEQUENTIAL,
    ),
)
