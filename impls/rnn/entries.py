"""Registry entries of the recurrent layers. Importing this file does not import torch."""

from impls.registry_entry import Claims, Impl

_ELMAN = "impls.rnn.reference:ElmanReference"
_GRU = "impls.rnn.reference:GRUReference"
_LSTM = "impls.rnn.reference:LSTMReference"
_MINGRU = "impls.rnn.reference:MinGRUReference"
_MINLSTM = "impls.rnn.reference:MinLSTMReference"

# Claims that several layers share.
_LOOP: Claims = {"memory": "nd", "depth": "n", "path": "n", "kind": "recurrent", "has_heads": False}
_SCAN: Claims = {"memory": "nd", "depth": "1", "path": "1", "has_heads": False}
_ELMAN_WORK: Claims = {"work": "4nd²", "work_train": "12nd² − 2d²", "work_decode": "4d²"}
_GRU_WORK: Claims = {"work": "12nd²", "work_train": "36nd² − 6d²", "work_decode": "12d²"}
_MINGRU_WORK: Claims = {"work": "4nd²", "work_train": "12nd²", "work_decode": "4d²"}
_MINLSTM_WORK: Claims = {"work": "6nd²", "work_train": "18nd²", "work_decode": "6d²"}

# Each layer builds on the one before.
RNN = (
    Impl(
        "rnn.elman",
        "impls.rnn.gated:Elman",
        _ELMAN,
        "Elman network, the loop over time in Python",
        **_ELMAN_WORK,
        **_LOOP,
    ),
    Impl(
        "rnn.torch",
        "impls.rnn.torch_modules:TorchRNN",
        _ELMAN,
        "the same network as torch.nn.RNN",
        **_ELMAN_WORK,
        **_LOOP,
    ),
    Impl(
        "rnn.gru",
        "impls.rnn.gated:GRU",
        _GRU,
        "GRU, the loop over time in Python",
        **_GRU_WORK,
        **_LOOP,
    ),
    Impl(
        "rnn.gru.torch",
        "impls.rnn.torch_modules:TorchGRU",
        _GRU,
        "the same network as torch.nn.GRU",
        **_GRU_WORK,
        **_LOOP,
    ),
    Impl(
        "rnn.lstm",
        "impls.rnn.gated:LSTM",
        _LSTM,
        "LSTM, the loop over time in Python",
        work="16nd²",
        work_train="48nd² − 8d²",
        work_decode="16d²",
        **_LOOP,
    ),
    Impl(
        "rnn.lstm.torch",
        "impls.rnn.torch_modules:TorchLSTM",
        _LSTM,
        "the same network as torch.nn.LSTM",
        work="16nd²",
        # No claim for training: 48nd² or 48nd² − 8d², depending on the backend; see `TorchLSTM`.
        work_decode="16d²",
        **_LOOP,
    ),
    Impl(
        "rnn.mingru",
        "impls.rnn.minimal:MinGRU",
        _MINGRU,
        "minGRU, the loop over time in Python",
        **_MINGRU_WORK,
        **_LOOP,
    ),
    Impl(
        "rnn.mingru.parallel",
        "impls.rnn.minimal:ParallelMinGRU",
        _MINGRU,
        "the same network as a scan in log space",
        **_MINGRU_WORK,
        **_SCAN,
    ),
    Impl(
        "rnn.minlstm",
        "impls.rnn.minimal:MinLSTM",
        _MINLSTM,
        "minLSTM, the loop over time in Python",
        **_MINLSTM_WORK,
        **_LOOP,
    ),
    Impl(
        "rnn.minlstm.parallel",
        "impls.rnn.minimal:ParallelMinLSTM",
        _MINLSTM,
        "the same network as a scan in log space",
        **_MINLSTM_WORK,
        **_SCAN,
    ),
    Impl(
        "rnn.linear_scan",
        "impls.rnn.scan:LinearScan",
        "impls.rnn.reference:LinearScanReference",
        "gated linear recurrence, scanned by doubling",
        work="4nd²",
        work_train="12nd²",
        work_decode="4d²",
        memory="nd",
        depth="log n",
        path="log n",
        has_heads=False,
    ),
)


# The layer whose first call compiles.
COMPILED_RNN = (
    Impl(
        "rnn.compiled",
        "impls.rnn.gated:CompiledElman",
        "impls.rnn.reference:ElmanReference",
        "Elman network, the loop compiled in blocks of 16 steps",
        **_ELMAN_WORK,
        **_LOOP,
        compiled=True,
    ),
)
