"""The faults that sweeps are tested with, and what must come of each.

`LAYERS` names the classes of `faults.layers`: the status of the layer's row, and a part of its reason.
"""

LAYERS = {
    "Good": ("ok", ""),
    "ForksChildren": ("ok", ""),
    "IgnoresSigterm": ("timeout", "no result after 3 s"),
    "ClosesItsPipe": ("killed", "it closed its pipe without a result and went on running"),
    "ClosesItsPipeAndGoesOn": ("error", "its process ended with exit status 0 and without a result"),
    "ForksAndReturnsInTheChild": ("ok", ""),
    "AnswersForItself": ("error", "what its process answered is no result"),
    "WritesAGigabyte": ("ok", ""),
    "ReadsItsInput": ("error", "EOFError: EOF when reading a line (layers.py:"),
    "ChangesDirectory": ("ok", ""),
    "ExitsAtOnce": ("error", "its process ended with exit status 0 and without a result"),
    "CallsSysExit": ("error", "SystemExit: enough (layers.py:"),
    "Raises": ("error", "RuntimeError: no such luck (layers.py:"),
    "RaisesUnprintable": ("error", "Unprintable: its message cannot be read (layers.py:"),
    "RaisesANumber": ("error", "PrintsANumber: its message cannot be read (layers.py:"),
    "RaisesDisguised": ("error", "Disguised: its message cannot be read (layers.py:"),
    "SpoilsBuiltinsAndRaises": ("error", "RuntimeError: spoiled (layers.py:"),
    "SpoilsBuiltins": ("error", "LookupError: spoiled (layers.py:"),
    "ReturnsNaN": ("wrong", "not finite"),
    "ReturnsTheWrongShape": ("wrong", "it returned shape (1, 7, 8) for an input of shape (1, 8, 8)"),
    "LeaksThreads": ("ok", ""),
    "Greedy": ("oom", "memory"),
    "GreedyInPython": ("oom", "memory"),
    "GreedyInPieces": ("oom", "memory"),
    "SignalsItsParent": ("killed", "together with the process it was forked from"),
    "KillsItsParent": ("killed", "together with the process it was forked from"),
}
