"""What layers cost commit by commit: which commit changed one, and a history of many as a page."""

from harness.core.model.extra_tables import GATE, Command

_HERE = "harness.extras.commits"
COMMANDS = [
    Command(
        "bisect",
        GATE,
        "find the commit at which a layer's time, FLOPs or memory changed",
        f"{_HERE}.commands",
        f"{_HERE}.options",
        "override",
    ),
    Command(
        "history",
        GATE,
        "record what layers cost commit by commit, and draw it as one page",
        f"{_HERE}.commands",
        f"{_HERE}.options",
        "flag",
    ),
]
