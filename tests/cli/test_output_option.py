"""`-o`, `--out` and `out=` are the same option of every command that writes."""

from pathlib import Path

import pytest

from harness.cli.commands import COMMANDS
from harness.cli.parsers import parse_options, with_output_flag
from harness.core.config import compose
from harness.core.config.key_value_options import Key, read_keys
from harness.core.model.errors import UsageError

# What each command needs beside the option, and where its parsed options have the output.
FLAGS = {"report": ["run"], "baseline": ["run"], "export": ["run", "--format", "csv"], "calibrate": ["threads=1"]}
KEYS = {"attention-map": ["a b"], "gradient-reach": []}
OVERRIDES = {"sweep": [], "check": ["b.json"]}
for commands in (FLAGS, KEYS, OVERRIDES):
    for absent in commands.keys() - COMMANDS.keys():
        del commands[absent]


@pytest.mark.parametrize("form", [["-o", "a/b"], ["-oa/b"], ["--out", "a/b"], ["--out=a/b"], ["out=a/b"]])
def test_every_form_of_the_output_is_the_same(form: list[str]) -> None:
    for command, needs in FLAGS.items():
        assert parse_options(command, [*needs, *form]).out == Path("a/b"), command
        assert parse_options(command, [*form, *needs]).out == Path("a/b"), command
    for command, needs in KEYS.items():
        assert parse_options(command, [*needs, *form]).keys == ["out=a/b"], command
    for command, needs in OVERRIDES.items():
        assert "out=a/b" in parse_options(command, [*needs, *form]).overrides, command


@pytest.mark.parametrize("command", [*FLAGS, *KEYS, *OVERRIDES])
def test_an_output_is_given_once(command: str) -> None:
    with pytest.raises(UsageError, match=r"^-o --out=b: out is given twice$|^-o out=b: out is given twice$"):
        with_output_flag(command, ["-o", "a", "out=b"])


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "../a b",
        "it's",
        "a,b",
        "back\\slash",
        "end\\",
        "\\'x",
        "null",
        "2024",
        "1e3",
        ".5",
        "ä(ß)",
        "x=[1]",
        "a/b-c.d",
        "~x",
    ],
)
def test_the_name_of_an_output_may_be_anything(name: str) -> None:
    options = parse_options("sweep", ["-o", name])
    assert compose(options.overrides, for_sweep=True).out == Path(name)
    for command, needs in KEYS.items():
        options = parse_options(command, [*needs, "-o", name])
        assert read_keys(options.keys, [Key("out")])["out"] == name


@pytest.mark.parametrize("command", [name for name in ("report", "calibrate") if name in COMMANDS])
def test_an_empty_output_is_refused(command: str) -> None:
    with pytest.raises(UsageError, match=r"^out=: name a file or a directory$"):
        parse_options(command, [*FLAGS[command], "out="])


def test_a_command_without_output_has_no_such_option() -> None:
    with pytest.raises(UsageError, match="unrecognized arguments: -o"):
        parse_options("status", ["run", "-o", "a"])
