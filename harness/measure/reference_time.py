"""How long a layer's reference takes in verification, and in the accuracy at the timed size.

References are written for float64 and not for speed. Those of recurrent layers loop over the tokens, and then take
longer than the layer itself. Those that compute a few rows alone (`rows`) take no time worth counting.
"""

import math

from harness.sweep_axes import Case
from impls.registry import IMPLS

# Operations for each token of a reference that loops over tokens, as tests/measure/test_reference_time.py counts them.
OPS_A_TOKEN = {
    "impls.rnn.reference:ElmanReference": 9,
    "impls.rnn.reference:GRUReference": 54,
    "impls.rnn.reference:LSTMReference": 70,
    "impls.rnn.reference:MinGRUReference": 29,
    "impls.rnn.reference:MinLSTMReference": 41,
    "impls.rnn.reference:LinearScanReference": 16,
    "impls.linear.reference:SSDReference": 41,
    "impls.linear.reference:GatedDeltaReference": 52,
    "impls.linear.reference:MLSTMReference": 61,
    "impls.linear.reference:RWKV7Reference": 156,
}
# Seconds for an operation of a few numbers in float64, on a quiet CPU.
_OPERATION_S = 2.2e-6
# The operations that a reference may take, and the tokens that the plain layer computes beside a loop. Repeated here
# because `harness.trial.accuracy` imports torch; the test compares both.
_MOST_OPS, _FEW = 200_000, 256
# Verification compares the outputs for two inputs.
_VERIFIED = 2


def verification_s(case: Case) -> float:
    """Seconds that the reference takes while the small case of `case` is verified."""
    small = case.small()
    return _VERIFIED * _loop_s(small, small.seq_len)


def accuracy_s(case: Case) -> float:
    """Seconds that the reference takes to measure the accuracy of the case, in float64 and in the dtype of the case."""
    if case.impl not in IMPLS or case.mode == "decode":
        return 0.0
    n, ops = case.seq_len, _passes(case) * OPS_A_TOKEN.get(IMPLS[case.impl].reference, 0)
    most = _MOST_OPS / ops if ops else math.inf
    tokens = n if n <= max(most, _FEW) else 2 ** int(math.log2(most))
    beside = min(tokens, _FEW) if case.mode == "forward" else tokens
    return _loop_s(case, tokens + beside)


def _loop_s(case: Case, tokens: int) -> float:
    reference = IMPLS[case.impl].reference if case.impl in IMPLS else ""
    return _OPERATION_S * _passes(case) * OPS_A_TOKEN.get(reference, 0) * tokens


def _passes(case: Case) -> int:
    return 3 if case.mode in ("train", "backward") else 1
