"""Commands about commits: `bisect` finds the one that changed a layer, and `history` records what each one costs."""

import argparse
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import yaml
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

import harness
from harness.cli.commands import CASES_FAILED, DONE
from harness.core.config import SweepConfig, compose
from harness.core.config.compose import differences
from harness.core.config.key_value_options import Key, read_keys, take_keys
from harness.core.layers.layer_lookup import is_foreign, is_in_a_file
from harness.core.model import file_io, formatting
from harness.core.model.errors import UsageError, notify, usage_error_about
from harness.core.model.sweep_axes import OWN_ENVIRONMENT, Case
from harness.core.results import run_directory
from harness.extras.compare.options import IN_TURNS, MINUTES, STEADY, THRESHOLD, check_in_turns, names_and_settings
from harness.extras.compare.worktree import commit_of, commits_between, unmeasured_changes

from .bisect import BisectRequest, Findings, bisect
from .change_position import TWO_STEPS
from .history import HistoryRequest, add, compare_directly
from .history_changes import time_changes, time_series
from .history_file import FACT_NAMES, SCHEMA, Blessing, Header, open_history, read_history
from .history_page import history_page

_WORSE = 1
_ADD = (Key("anchor"), replace(MINUTES, default=5.0))
# The flags that one action alone has.
_FLAGS = {"add": ("exact",), "page": ("confirm", "out"), "bless": ()}


def run_history(options: argparse.Namespace) -> int:
    """Carry out one action and return the exit status."""
    for name in ("exact", "confirm", "out"):
        if getattr(options, name) and name not in _FLAGS[options.action]:
            raise UsageError(f"history {options.action} has no --{name}: see 'python -m harness history --help'")
    return {"add": _add, "page": _page, "bless": _bless}[options.action](options)


def _say(line: str) -> None:
    Console(highlight=False).out(formatting.printable(line))


def _add(options: argparse.Namespace) -> int:
    refs, overrides = names_and_settings(options.overrides)
    keys, settings = take_keys(overrides, _ADD)
    named = [commits_between(ref) if ".." in ref else [commit_of(ref)] for ref in refs or ["HEAD"]]
    commits = list(dict.fromkeys(chain(*named)))
    is_new = not options.file.exists() or (options.file.is_file() and options.file.stat().st_size == 0)
    anchor = commit_of(keys["anchor"]).hash if keys["anchor"] else None
    if is_new:
        header = _new_header(settings, anchor or commits[0].hash)
    else:
        header = read_history(options.file).header
        _check_same(options.file, header, settings, anchor)
    config = _configured(header.settings)
    notify(*unmeasured_changes(commits))
    request = HistoryRequest(config, header.anchor, commits, keys["minutes"], options.exact)
    with open_history(options.file, header) as writer:
        notify(*writer.history.notices)
        try:
            lines = add(request, writer, _say)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("repeat the command to add the other commits") from None
    return DONE if all(line.measured for line in lines) else CASES_FAILED


def _configured(settings: Sequence[str]) -> SweepConfig:
    """The configuration. Raises UsageError for settings without a use in a history."""
    config = compose(settings, usual=STEADY)
    for impl in config.axes["impl"]:
        if is_in_a_file(impl):
            raise UsageError(f"impl={impl} is one file, whatever the commit: name it as module:Class")
    for key in ("out", "config_dir"):
        if _names(settings, key):
            raise UsageError(f"{key}= has no effect here: FILE is the only output")
    return config


def _names(settings: Sequence[str], key: str) -> bool:
    return any(text.startswith(f"{key}=") for text in settings)


def _new_header(settings: Sequence[str], anchor: str) -> Header:
    """The first line of a new file. `threads=` completes the settings, since its default depends on the machine."""
    if not _names(settings, "impl"):
        raise UsageError("name the layers whose history this is: impl=my.module:MyLayer")
    config = _configured(settings)
    if not _names(settings, "threads"):
        settings = [*settings, f"threads={config.axes['threads'][0]}"]
    about = {"schema": SCHEMA, "harness": harness.__version__, "anchor": anchor, "settings": settings}
    return Header.model_validate(about)


def _check_same(path: Path, header: Header, settings: Sequence[str], anchor: str | None) -> None:
    """Raise UsageError if the command line has settings or an anchor other than the file's."""
    if settings:
        then, now = (yaml.safe_load(_configured(texts).yaml) for texts in (header.settings, settings))
        if not _names(settings, "threads"):
            now["threads"] = then["threads"]  # that of the machine on which the file was begun
        if differences(then, now):
            begun = shlex.join(header.settings)
            raise UsageError(f"{path} was begun with {begun}: leave the settings out, or name a new file")
    if anchor is not None and anchor != header.anchor:
        raise UsageError(f"{path} has the anchor {header.anchor[:10]}: leave anchor= out, or name a new file")


def _page(options: argparse.Namespace) -> int:
    threshold = read_keys(options.overrides, (THRESHOLD,))["threshold"]
    out = options.out or options.file.with_suffix(".html")
    if out.resolve() == options.file.resolve():
        raise UsageError(f"{out} is the history itself: name another file for the page")
    if options.confirm:
        try:
            _confirm(options.file, threshold)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("repeat the command to confirm the other candidates") from None
    history = read_history(options.file)
    notify(*history.notices)
    text, worse, sentences = history_page(history, threshold, options.out)
    with usage_error_about(out):
        file_io.write_atomically(out, text)
    for sentence in sentences:
        _say(sentence)
    _say(f"{out}: one page, which loads nothing from elsewhere")
    return _WORSE if worse else DONE


def _confirm(path: Path, threshold: float) -> None:
    """Compare the two commits of each candidate directly. A pair that could not be measured is tried again."""
    with open_history(path) as writer:
        config = _configured(writer.history.header.settings)
        for change in time_changes(writer.history, time_series(writer.history), threshold):
            if change.verdict.is_due:
                compare_directly(config, change.before.commit, change.after.commit, change.case, writer, _say)


def _bless(options: argparse.Namespace) -> int:
    refs, overrides = names_and_settings(options.overrides)
    reason = read_keys(overrides, (Key("reason"),))["reason"]
    if len(refs) != 1 or not reason:
        raise UsageError(f"give one commit and why: history bless {options.file} COMMIT reason='…'")
    with open_history(options.file) as writer:
        commit = writer.history.find(refs[0]) or writer.history.find(commit_of(refs[0]).hash)
        if commit is None:
            raise UsageError(f"{options.file} has no line about {refs[0]}: add it with 'history add' first")
        writer.append(Blessing(blessed=commit.commit, reason=reason, at=round(time.time(), 3)))
        _say(f"{commit.name}: its changes are blessed")
    return DONE


_MOST_CANDIDATES = 5


def read_bisect_request(options: argparse.Namespace) -> BisectRequest:
    """Check the command line. Raises UsageError for invalid arguments, and for more than one case."""
    keys, settings = take_keys(options.overrides, (THRESHOLD, MINUTES))
    config = compose(settings, options.config_dir, usual=IN_TURNS)
    check_in_turns(config)
    several = [name for name, values in config.axes.items() if len(values) != 1]
    if several:
        raise UsageError(f"bisect takes one case: give one value of {', '.join(several)}")
    case = Case(**{name: values[0] for name, values in config.axes.items()})
    if case.env != OWN_ENVIRONMENT:
        raise UsageError(f"env={case.env}: bisect compares commits in its own environment: leave env out")
    if not is_foreign(case.impl) or is_in_a_file(case.impl):
        raise UsageError(f"impl={case.impl}: bisect needs a layer of this repository, as module:Class")
    return BisectRequest(config, case, commits_between(options.span), keys["threshold"], keys["minutes"], options.time)


def run_bisect(options: argparse.Namespace) -> int:
    """Search for the commit and return the exit status."""
    request = read_bisect_request(options)
    notify(*unmeasured_changes(request.commits))
    out = request.config.out or run_directory.unused_path("bisect_")
    try:
        findings = bisect(request, out, _say)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"repeat the command with 'out={out}' to continue") from None
    return _show_findings(request, findings)


def _show_findings(request: BisectRequest, findings: Findings) -> int:
    def name(first: int, last: int) -> str:
        more = f", or at one of {last - first} before it that cannot be measured" if last > first else ""
        return f"{request.commits[last].name}{more}"

    for fact, change in findings.facts.items():
        again = "; it changes again later" if change.returns else ""
        _say(f"{FACT_NAMES[fact]}: from {change.was} to {change.now} at {name(change.first, change.last)}{again}.")
    answer = findings.answer
    if findings.no_difference:
        _say(findings.no_difference)
    if answer is not None:
        table = Table("commit", "subject", "probability", box=box.SIMPLE_HEAD)
        for candidate in sorted(answer.candidates, key=lambda candidate: -candidate.probability)[:_MOST_CANDIDATES]:
            commit = request.commits[candidate.last]
            table.add_row(commit.hash[:10], Text(commit.subject), f"{candidate.probability:.2f}")
        Console().print(table)
    if findings.problem:
        _say(findings.problem)
        return CASES_FAILED
    if answer is None:
        return DONE
    if findings.why == TWO_STEPS and answer.pair is not None:
        first, second = (name(at, at) for at in answer.pair)
        span = f"{request.commits[0].hash[:10]}..{request.commits[answer.pair[1] - 1].hash[:10]}"
        _say(
            f"The time changes at more than one commit. The likeliest two are {first} and {second}, with probability "
            f"{answer.pair_probability:.2f}. Search a shorter range next, such as {span}."
        )
        return DONE
    _say(f"The time changes by {answer.step.text} at {name(answer.best.first, answer.best.last)}.")
    if findings.neighbours is not None:
        _say(f"Side by side with the commit before, the change is {findings.neighbours.text}.")
    return DONE
