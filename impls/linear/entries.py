"""Registry entries of the layers with a matrix state. Importing this file does not import torch."""

from impls.impl import Claims, Impl

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
        memory="nd",
        **_SEQUENTIAL,
    ),
    Impl(
        "linear.ssd.chunked",
        "impls.linear.ssd:ChunkedSSD",
        _SSD,
        "the same in chunks of 32",
        # The heads share C Bᵀ: 2 · 32s for each token.
        work="4nd² + 8snd + 64nd + 2hnd + 64sn",
        work_train="12nd² + 24snd + 192nd + 6hnd + 192sn",
        work_decode="4d² + 8sd + 2hd",
        axes={"state": ("s", 64)},
        memory="nd + hn",
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
        # Five products of 2 · 32nd, and for each row of the inverse 2 · 32² in each head.
        work="8nd² + 4hnd + 320nd + 2048hn + 6nd²/h",
        work_train="24nd² + 12hnd + 960nd + 6144hn + 18nd²/h",
        work_decode="8d² + 4hd + 6d²/h",
        memory="nd + hn + nd²/h",
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
        work="10nd² + 4hnd + 256nd + 4nd²/h",
        work_train="30nd² + 12hnd + 768nd + 12nd²/h",
        work_decode="10d² + 4hd + 4d²/h",
        memory="nd + hn + nd²/h",
        **_SEQUENTIAL,
    ),
    Impl(
        "linear.rwkv7.recurrent",
        "impls.linear.rwkv7:RecurrentRWKV7",
        _RWKV7,
        "RWKV-7's time mixing, one token after another",
        # Three narrow networks of 32 channels. No gradient flows back into H_0.
        work="8nd² + 384nd + 8nd²/h",
        work_train="24nd² + 1152nd + 24nd²/h − 2d²/h",
        work_decode="8d² + 384d + 8d²/h",
        memory="nd + d²/h",
        **_SEQUENTIAL,
    ),
    Impl(
        "linear.rwkv7.chunked",
        "impls.linear.rwkv7:ChunkedRWKV7",
        _RWKV7,
        "the same in chunks of 16",
        # Nine products of 2 · 16nd, and for each row of the inverse 2 · 16² in each head.
        work="8nd² + 672nd + 512hn + 8nd²/h",
        work_train="24nd² + 2016nd + 1536hn + 24nd²/h",
        work_decode="8d² + 384d + 8d²/h",
        memory="nd + hn + nd²/h",
        **_SEQUENTIAL,
    ),
)
