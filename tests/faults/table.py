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
    "AnswersForItself": ("error", "the answer of its process is not valid: it has no known 'status'"),
    "AnswersWithTheStatusAlone": ("error", "the answer of its process is not valid: 'against' is missing"),
    "AnswersWithManyBrackets": ("error", "the answer of its process is not valid: it is not JSON"),
    "AnswersWithoutAnEnd": ("error", "the answer of its process is not valid: it is longer than 64 MiB"),
    "FailsForNoText": ("error", "the answer of its process is not valid: 'reason' is not what it must be"),
    "ReplacesJsonDumps": ("ok", ""),
    "ReplacesOpenAndPrint": ("ok", ""),
    "ReplacesTheClocks": ("ok", ""),
    "ReplacesMin": ("error", "it replaced built-in functions of Python: min"),
    "ReplacesLen": ("error", "it replaced built-in functions of Python: len"),
    "WritesAGigabyte": ("ok", ""),
    "ReadsItsInput": ("error", "EOFError: EOF when reading a line (layers.py:"),
    "ChangesDirectory": ("ok", ""),
    "ExitsAtOnce": ("error", "its process ended with exit status 0 and without a result"),
    "CallsSysExit": ("error", "SystemExit: enough (layers.py:"),
    "Raises": ("error", "RuntimeError: no such luck (layers.py:"),
    "ReturnsNaN": ("wrong", "not finite"),
    "ReturnsTheWrongShape": ("wrong", "it returned shape (1, 7, 8) for an input of shape (1, 8, 8)"),
    "LeaksThreads": ("ok", ""),
    "Greedy": ("oom", "memory"),
    "GreedyInPython": ("oom", "memory"),
    "GreedyInPieces": ("oom", "memory"),
    "SignalsItsParent": ("killed", "together with the process it was forked from"),
    "KillsItsParent": ("killed", "together with the process it was forked from"),
}
