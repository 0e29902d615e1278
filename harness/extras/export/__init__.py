"""A run in other tools' formats, and one or two of its cases as a script.

FORMATS has the name of each format, the ending of its files, and `module:function`. Other extras may add to it. The
function takes a `StoredRun`, and that of `script` or a problem also the lines of the chosen cases. It returns the bytes
of the file, the number of its cases, and a sentence for each thing that the format cannot hold.
"""

from harness.core.model.extra_tables import READ, Command

_COMMANDS, _TABLES = "harness.extras.export.commands", "harness.extras.export.formats"
COMMANDS = [
    Command(
        "export",
        READ,
        "write a run as JSON, CSV or Parquet for another tool, or a case as a script for an issue",
        _COMMANDS,
        _COMMANDS,
        "flag",
    ),
]
TRIAL_KINDS = [("describe_call", "harness.extras.export.script_parts:DESCRIBE_CALL")]
FORMATS = [
    ("pytest-benchmark", ".json", f"{_TABLES}:export_pytest_benchmark"),
    ("csv", ".csv", f"{_TABLES}:export_csv"),
    ("parquet", ".parquet", f"{_TABLES}:export_parquet"),
    ("github-action-benchmark", ".json", f"{_TABLES}:export_github_action_benchmark"),
    ("script", ".py", "harness.extras.export.script:export_cases"),
    ("kernelbench", ".py", "harness.extras.export.script:export_problem"),
    ("flashinfer-definition", ".json", "harness.extras.export.script:export_definition"),
    ("liger-csv", ".csv", f"{_TABLES}:export_liger"),
    ("pytorch-hud", ".json", f"{_TABLES}:export_hud"),
    ("huggingface-kernels", ".json", f"{_TABLES}:export_huggingface"),
]
