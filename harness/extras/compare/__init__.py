"""Two layers, commits, environments or settings side by side: which is slower, and where they differ."""

from harness.core.model.extra_tables import GATE, MEASURE, Command

_HERE = "harness.extras.compare"
COMMANDS = [
    Command(
        "compare",
        MEASURE,
        "measure two layers, commits, environments or settings side by side: slower, faster or equivalent",
        f"{_HERE}.commands",
        f"{_HERE}.options",
        "override",
    ),
    Command(
        "explain",
        GATE,
        "show where two layers or commits differ: operations, FLOPs, bytes, tensors at the peak",
        f"{_HERE}.commands",
        f"{_HERE}.options",
        "override",
    ),
]
OPTIONS = [("baseline", f"{_HERE}.options:add_known_bad")]
TRIAL_KINDS = [("turns", f"{_HERE}.turn_trial:TURNS"), ("trace", f"{_HERE}.turn_trial:TRACE")]
