"""Options that several commands have, the forms that mean the same, and forms of other tools that get a hint.

Every command that writes takes `-o PLACE`, `--out PLACE` and `out=PLACE`.
"""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from harness.core.model.errors import UsageError
from harness.core.model.extra_tables import Out
from harness.core.model.sweep_axes import AXES, LETTERS

from .commands import COMMANDS

# A path that Hydra's grammar reads as it is: neither a number nor null.
_PLAIN_PATH = re.compile(r"(?!(null|true|false|nan|inf)$)(\.{0,2}/|[a-z_])[\w./~-]*|", re.ASCII | re.IGNORECASE)
# A name, `=` and a value, of which two or all are arguments of their own.
_APART = re.compile(r"(?:^|\0)([\w.]+)(?:\0=\0?([^\0]+)|=\0([^-=\0][^=\0]*)(?:\0|$))")


def add_run(parser: ArgumentParser, what: str = "a run's directory, such as results/latest") -> None:
    parser.add_argument("run", type=Path, metavar="RUN", help=what)


def add_keys(parser: ArgumentParser, dest: str = "keys", help: str | None = None) -> None:
    parser.add_argument(dest, nargs="*", metavar="key=value", help=help)


def add_overrides(parser: ArgumentParser, help: str | None = None) -> None:
    add_keys(parser, "overrides", help)
    parser.add_argument("--config-dir", type=Path, metavar="DIR", help="a directory of your own settings, beside conf/")


def add_out(
    parser: ArgumentParser, help: str, metavar: str = "DIR", kind: type = Path, default: Path | None = None
) -> None:
    """Add `-o`, `--out`. The key `out=` is the same."""
    help = f"{help}; or out={metavar}"
    parser.add_argument("-o", "--out", type=kind, default=default, metavar=metavar, help=help)


def add_open(parser: ArgumentParser) -> None:
    parser.add_argument("--open", action="store_true", help="open report.html in a browser at the end")


def add_outputs(parser: ArgumentParser) -> None:
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a summary in Markdown")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML, with one test case per outcome")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every outcome as JSON")


def with_output_flag(command: str, arguments: Sequence[str]) -> list[str]:
    """The arguments with flags for the keys `out=` and `baseline=`, for commands that have a flag only."""
    outs = [text for text in arguments if re.match(r"out=|-o|--out\b", text)]
    out = COMMANDS[command].out
    if out is not None and len(outs) > 1:
        raise UsageError(f"{outs[0]} {outs[-1]}: out is given twice")
    if out is Out.FLAG and "out=" in arguments:
        raise UsageError("out=: name a file or a directory")
    keys = [*(["out="] if out is Out.FLAG else []), *(["baseline="] if command == "report" else [])]
    return [f"--{text}" if text.startswith(tuple(keys)) else text for text in arguments]


def with_output_key(command: str, options: Namespace) -> Namespace:
    """The options with the key `out=` for the flag `--out`, for commands that have keys."""
    out = COMMANDS[command].out
    if out is Out.OVERRIDE and options.out is not None:
        # Only backslashes before a quote are special to Hydra.
        escaped = re.sub(r"(\\*)('|$)", lambda match: 2 * match[1] + ("\\'" if match[2] else ""), options.out)
        plain = _PLAIN_PATH.fullmatch(options.out)
        options.overrides.append(f"out={options.out}" if plain else f"out='{escaped}'")
    elif out is Out.KEY and options.out is not None:
        options.keys.append(f"out={options.out}")
    return options


def check_spelling(arguments: Sequence[str], parser: ArgumentParser) -> None:
    """Raise UsageError for a setting written as a flag, `--seq_len 128`, and for spaces around `=`."""
    if apart := _APART.search("\0".join(arguments)):
        raise UsageError(f"write {apart[1]}={apart[2] or apart[3]}, without spaces around '='")
    for index, text in enumerate(arguments):
        flag, equals, value = text.partition("=")
        name = flag.lstrip("-").replace("-", "_")
        if not flag.startswith("--") or flag in parser._option_string_actions or name not in _settings():
            continue
        if not equals:
            following = [*arguments[index + 1 : index + 2], "…"][0]
            value = "…" if following.startswith("-") else following
        raise UsageError(f"{flag} is not a flag: write {name}={value}")


def _settings() -> list[str]:
    from harness.core.config.schema import keys  # slow to load, and only mistakes need it

    return [*AXES, *LETTERS, *keys(for_sweep=True)]
