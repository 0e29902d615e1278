"""Write a gate's outcomes to the files named on the command line, and to GitHub's job summary."""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.gate.check_rules import Outcome

SUMMARY = "GITHUB_STEP_SUMMARY"
_ENDINGS = {"markdown": ".md", "junit": ".xml", "json": ".json"}


def add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the flags `--markdown FILE`, `--junit FILE` and `--json FILE` to a command."""
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a summary in Markdown")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML, with one test case per verdict")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every verdict as JSON")


def check_outputs(options: argparse.Namespace) -> None:
    """Raise UsageError if an output file cannot be written: before minutes of measuring, not after."""
    summary = os.environ.get(SUMMARY)
    named = [(f"--{flag} {path}", path) for flag, path in _requested_outputs(options)]
    for name, path in [*named, *([(f"${SUMMARY} {summary}", Path(summary))] if summary else [])]:
        if path.is_dir():
            raise UsageError(f"{name}: it is a directory, name a file")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"{name}: there is no directory {path.absolute().parent}")
        if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
            raise UsageError(f"{name}: it cannot be written to")


def publish_outcomes(
    options: argparse.Namespace,
    title: str,
    outcomes: "Sequence[Outcome]",
    remarks: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> None:
    """Write the files named in `options`, and append to GitHub's job summary if the job has one.

    `title` names the gate and its subject. `properties` describes the run, for example torch's version. Raises
    UsageError if a file cannot be written.
    """
    for flag, path in _requested_outputs(options):
        _write(path, _text(flag, title, outcomes, remarks, properties), "w")
    summary = os.environ.get(SUMMARY)
    if summary:
        _write(Path(summary), _text("markdown", title, outcomes, remarks, properties), "a")


def write_outputs(
    stem: Path,
    title: str,
    outcomes: "Sequence[Outcome]",
    remarks: Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
) -> None:
    """Write all three files: `stem` with .md, .xml and .json. Raises UsageError if one cannot be written."""
    for flag, ending in _ENDINGS.items():
        _write(stem.with_suffix(ending), _text(flag, title, outcomes, remarks, properties), "w")


def _text(
    flag: str, title: str, outcomes: "Sequence[Outcome]", remarks: Sequence[str], properties: Mapping[str, str] | None
) -> str:
    from harness.gate.reporters import junit_xml, outcomes_json, outcomes_markdown  # after `--help`

    if flag == "markdown":
        return outcomes_markdown(title, outcomes, remarks)
    return (
        junit_xml(title, outcomes, properties)
        if flag == "junit"
        else outcomes_json(title, outcomes, remarks, properties)
    )


def _requested_outputs(options: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    return ((flag, path) for flag in _ENDINGS if (path := getattr(options, flag)) is not None)


def _write(path: Path, text: str, mode: str) -> None:
    try:
        with path.open(mode, encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
