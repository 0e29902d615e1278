"""What a layer does with a sequence, not what it costs: attention weights, and how far back a gradient reaches."""

from harness.core.model.extra_tables import EXPLORE, Command

_COMMANDS = "harness.extras.attention.commands"
COMMANDS = [
    Command(
        "attention-map",
        EXPLORE,
        "draw which word of a sentence attends to which in a layer, as a heat map",
        _COMMANDS,
        _COMMANDS,
        "key",
    ),
    Command(
        "gradient-reach",
        EXPLORE,
        "measure how far back a layer's output depends on its input",
        _COMMANDS,
        _COMMANDS,
        "key",
    ),
]
TRIAL_KINDS = [("attention_map", f"{_COMMANDS}:ATTENTION_MAP"), ("gradient_reach", f"{_COMMANDS}:GRADIENT_REACH")]
