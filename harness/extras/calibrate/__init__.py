"""Whether the machine is fit to measure on: its noise, peaks and settings."""

from harness.core.model.extra_tables import MEASURE, Command

_COMMANDS, _RECORD = "harness.extras.calibrate.commands", "harness.extras.calibrate.record"
COMMANDS = [
    Command(
        "calibrate",
        MEASURE,
        "report whether this machine is fit to measure on, and what to change",
        _COMMANDS,
        _COMMANDS,
        "flag",
    ),
]
# What is added to a run's machine.json, and what `doctor` says.
MACHINE_FACTS = [f"{_RECORD}:attachment"]
DOCTOR = [f"{_RECORD}:doctor_rows"]
