"""The reference pages of the documentation, generated from the tables in the code.

.venv/bin/python tests/docs/reference_pages.py     writes them to docs/reference/
"""

import argparse
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import MISSING
from pathlib import Path

import yaml

from harness.cli.commands import EXIT_STATUSES, commands_by_group
from harness.cli.parsers import parser_of
from harness.core.config import schema
from harness.core.model.sweep_axes import AXES, BAD_STATUSES, STATUSES
from harness.core.results.columns import COLUMNS
from harness.study.check.check_rules import Verdict

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "docs" / "reference"
_GENERATED = "This page is generated from the code: `tests/docs/reference_pages.py`."
# What each setting is. Times are in seconds unless the text says otherwise.
_SETTINGS = {
    "points": "sizes to measure together, instead of all combinations: `'points=[{seq_len:512,batch_size:32},…]'`",
    "paper": "a published setting, by its name in `conf/paper`",
    "precision": "how precisely to measure: `quick`, `standard` or `strict`",
    "out": "the directory of the run; without it, a new one below `results/`",
    "seed": "the seed of weights, inputs and the order of the trials",
    "memory_limit": "the most memory of a trial, as `8GB`; without it, most of what is free at the start",
    "compile_timeout_s": "the longest time of a trial that compiles and is not timed",
    "grow": "an axis whose largest size is doubled until a layer fails",
    "baseline": "the layer to which the report's ratios relate; without it, the fastest",
    "retry": "statuses whose cases a continued run measures again, such as `timeout,oom`",
    "launcher": "where the trials run: `here`, `slurm` or `processes`",
    "wait": "whether the command waits for its shards and writes the report",
    "head_dim": "the width of a head: sets `d_model` = `num_heads` × `head_dim`",
    "scale": "the size of a paper's setting: `full`, or `cpu` for a machine without a GPU",
    "precision.target": "a case stops once its 95 % interval is within ± this share of its time",
    "precision.min_rounds": "the fewest trials of a case",
    "precision.max_rounds": "the most trials of a case",
    "precision.trial_s": "how long a trial samples",
    "precision.timeout_s": "the longest time of a trial",
    "precision.case_s": "a case stops after this long, once it has `min_rounds` trials",
    "precision.patience_s": "how long to wait, in all, for quiet moments in which disturbed cases are repeated",
    "launcher.cluster": "`here`, `slurm`, or `processes` for shards on this machine",
    "launcher.partition": "Slurm's partition",
    "launcher.account": "Slurm's account",
    "launcher.time": "the time limit of a job, in minutes",
    "launcher.gres": "Slurm's generic resources, such as `gpu:1`",
    "launcher.cpus_per_task": "the CPUs of a job, and the default of `threads`",
    "launcher.exclusive": "whether a job has its node alone",
    "launcher.array_parallelism": "the most jobs at once",
    "launcher.setup": "shell commands that a job runs first",
    "launcher.apart": "axes along which cases may be in different shards, because nobody compares them",
    "launcher.attempts": "the most jobs that a shard gets",
    "launcher.silence_s": "a job that reports nothing for this long counts as dead",
    "launcher.queue_s": "a job that has not started after this long is abandoned",
}
# Options of conf/ that are chosen by name, and what they choose.
_GROUPS = {
    "precision": "the target width of intervals, and limits on rounds and time",
    "preset": "a set of layers",
    "shape": "the sizes of a real layer",
    "paper": "a published setting with its figures; `scale=cpu` has smaller sizes",
    "launcher": "where trials run",
    "device": "the device with its usual settings",
}


def pages() -> dict[str, str]:
    """The text of each page, by its file's name."""
    return {
        "columns.md": columns(),
        "commands.md": commands(),
        "keys.md": keys(),
        "statuses.md": statuses(),
    }


def columns() -> str:
    """The columns of `summary.csv`."""
    rows = [(f"`{one.name}`", one.unit if one.unit != "1" else "", one.about) for one in COLUMNS.values()]
    return "\n".join(
        [
            "# The columns of summary.csv",
            "",
            "Each line of `summary.csv` is one case. An empty cell means that there is no such number: `reason` and",
            "`facts_unknown` say why. The notebook's `run.table` and the exports have the same columns. How the",
            "numbers are made: [times](../explanation/estimator.md), [exact facts](../explanation/facts.md).",
            _GENERATED,
            "",
            *_table(("column", "unit", "what it is"), rows),
            "",
        ]
    )


def commands() -> str:
    """Each command with its options and examples."""
    lines = [
        "# Commands",
        "",
        "Every command is `python -m harness COMMAND`, or `attn-harness COMMAND`.",
        _GENERATED,
        "",
    ]
    for group, members in commands_by_group().items():
        lines += [f"## {group}", ""]
        for command in members:
            parser = parser_of(command.name)
            lines += [f"### {command.name}", "", f"{parser.description}", ""]
            # Its own help option is the same everywhere.
            options = [action for action in parser._actions if not isinstance(action, argparse._HelpAction)]
            lines += [*_table(("argument", "what it does"), map(_option, options)), ""]
            lines += ["```text", *(parser.epilog or "").splitlines(), "```", ""] if parser.epilog else []
    return "\n".join(lines)


def _option(action: argparse.Action) -> tuple[str, str]:
    names = ", ".join(action.option_strings)
    value = action.metavar if action.nargs != 0 else ""
    if isinstance(value, tuple):
        value = " ".join(value)
    return f"`{' '.join(filter(None, [names, value or (action.dest if not names else '')]))}`", action.help or ""


def keys() -> str:
    """The axes, the settings with their defaults, and the options in conf/."""
    axes = [
        (
            f"`{axis.name}`" + (f", `{axis.letter}`" if axis.letter else ""),
            " ".join(f"`{value}`" for value in axis.values) or ("number" if axis.type in (int, float) else "text"),
            "" if axis.default is MISSING else f"`{axis.default}`",
            axis.help,
        )
        for axis in AXES.values()
    ]
    names = [name for name in schema.keys(for_sweep=True) if name not in AXES]
    settings = [(f"`{name}`", _default(name), _SETTINGS[name]) for name in names]
    groups = [
        (f"`{group}=`", " ".join(f"`{path.stem}`" for path in sorted((ROOT / "conf" / group).glob("*.yaml"))), about)
        for group, about in _GROUPS.items()
    ]
    precision = [
        (f"`{path.stem}`", *(f"`{value}`" for value in yaml.safe_load(path.read_text()).values()))
        for path in sorted((ROOT / "conf" / "precision").glob("*.yaml"))
    ]
    parts = yaml.safe_load((ROOT / "conf" / "precision" / "quick.yaml").read_text())
    return "\n".join(
        [
            "# Keys of a sweep",
            "",
            "What is measured is a `key=value`; how the command behaves is a `--flag`.",
            _GENERATED,
            "",
            "## Axes",
            "",
            "Each axis takes a value, a list, or",
            "[Hydra's sweep grammar](https://hydra.cc/docs/advanced/override_grammar/extended/).",
            "Without a default, a shape or a preset sets it.",
            "",
            *_table(("key", "values", "default", "what it is"), axes),
            "",
            "## Options by name",
            "",
            *_table(("key", "names", "what it chooses"), groups),
            "",
            "## Precisions",
            "",
            *_table(("precision", *(f"`{name}`" for name in parts)), precision),
            "",
            _prose(schema.Precision),
            "",
            "## Settings",
            "",
            *_table(("key", "default", "what it is"), settings),
            "",
        ]
    )


def _default(key: str) -> str:
    value: object = schema.PLAIN
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return "" if isinstance(value, dict) or value in (None, "???") else f"`{value}`"


def _prose(described: type) -> str:
    return inspect.getdoc(described) or ""


def statuses() -> str:
    """What the status of a case, a verdict, and the exit status of a command mean."""
    return "\n".join(
        [
            "# Statuses, verdicts and exit statuses",
            "",
            _GENERATED,
            "",
            "## The status of a case",
            "",
            *_table(
                ("status", "what it means", "exit status"),
                ((f"`{name}`", about, "3" if name in BAD_STATUSES else "0") for name, about in STATUSES.items()),
            ),
            "",
            "## The verdict on a change",
            "",
            "The words for times, for memory and FLOPs, and in the outcome of a gate:",
            "",
            *_table(("time", "memory, FLOPs", "outcome"), ((one.time, one.amount, one.outcome) for one in Verdict)),
            "",
            "## The exit status of a command",
            "",
            *_table(("status", "what it means"), ((str(status), about) for status, about in EXIT_STATUSES.items())),
            "",
        ]
    )


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [headings, ["---"] * len(headings), *rows]
    return [f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


if __name__ == "__main__":
    for name, text in pages().items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
