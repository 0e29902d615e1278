"""The command `explain`: where one call of two layers, or of a layer at two commits, differs."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from harness import formatting, layer_lookup
from harness.case_grid import collapsed
from harness.cli.commands import CASES_FAILED, DONE
from harness.cli.option_forms import STEADY
from harness.config import SweepConfig, compose
from harness.errors import UsageError
from harness.extras.compare.explanation import trace_pair
from harness.extras.compare.worktree import find_commit, has_uncommitted_changes, worktree
from harness.key_value_options import present_option
from harness.measure.fork_client import Runtime
from harness.measure.session import Session
from harness.report.document import markdown, show
from harness.results import run_directory
from harness.sweep_axes import Case

_FORMS = (
    "'python -m harness explain attention.naive attention.fused', or "
    "'python -m harness explain main . impl=module:Class'"
)
_WORKING_TREE = "."


def run_explain(options: argparse.Namespace) -> int:
    """Trace both sides, show and write what differs, and return the exit status."""
    words = [options.a, options.b, *map(present_option, options.overrides)]
    sides = [word for word in words if "=" not in word]
    if len(sides) != 2:
        raise UsageError(f"explain takes two sides, and got {' '.join(sides) or 'none'}: {_FORMS}")
    overrides = [word for word in words if "=" in word]
    of_commits = any(option.startswith("impl=") for option in overrides)
    if not of_commits:
        _check_layers(sides)
        overrides.append(f"impl={','.join(dict.fromkeys(sides))}")
    config, case = _one_case(overrides, options.config_dir)
    out = config.out or run_directory.unused_path("explain_")
    run_directory.check_new(out)
    console = Console()
    with _open_commits(sides, config) if of_commits else _open_layers(sides, config) as sessions:
        traced = []
        for name, impl, session in zip(sides, [case.impl] * 2 if of_commits else sides, sessions, strict=True):
            try:
                session.check_devices(config)
                one = collapsed(replace(case, impl=impl), session.has_heads)
                traced += session.distinct_cases(config, [one])
            except UsageError as error:
                raise UsageError(f"{name}: {error}" if of_commits else str(error)) from error
        sizes = max((str(one).partition(" ")[2] for one in traced), key=len)  # a side may lack heads or an own axis
        title = f"{sides[1]} compared with {sides[0]}: {f'{case.impl} ' if of_commits else ''}{sizes}"
        out.mkdir(parents=True, exist_ok=True)
        pair = [
            (name, letter, session.executor, one)
            for name, letter, session, one in zip(sides, "ab", sessions, traced, strict=True)
        ]
        found = trace_pair(title, pair, out)
    if found.failure:
        with suppress(OSError):  # it holds the trace of the other side
            out.rmdir()
        print(f"harness: {formatting.printable(found.failure)}", file=sys.stderr)
        return CASES_FAILED
    show(found.parts(brief=True), console)
    (out / "explain.md").write_text(markdown(found.section()), encoding="utf-8")
    text = json.dumps({**found.as_dict(), "cases": [one.as_dict() for one in traced]}, indent=1, ensure_ascii=False)
    (out / "explain.json").write_text(text + "\n", encoding="utf-8")
    console.out(f"{out}: explain.md, explain.json, {', '.join(found.files)}", highlight=False)
    return DONE


def _is_layer(word: str) -> bool:
    return word in layer_lookup.names() or layer_lookup.is_foreign(word)


def _check_layers(sides: Sequence[str]) -> None:
    for word in sides:
        if not _is_layer(word) and (word == _WORKING_TREE or _is_commit(word)):
            raise UsageError(f"'{word}' is a commit: name the layer to compare at both commits, impl=module:Class")
        layer_lookup.check_name(word)


def _is_commit(word: str) -> bool:
    try:
        return find_commit(word) is not None
    except UsageError:  # without git, or outside a repository, the word can only mean a layer
        return False


def _one_case(overrides: Sequence[str], config_dir: Path | None) -> tuple[SweepConfig, Case]:
    """The configuration and its one case. Of an axis that is not given, the largest of the default values is taken."""
    config = compose(overrides, config_dir, usual=STEADY)
    # A preset also sets axes. Several values that it sets were chosen, so none of them is dropped.
    default = compose([option for option in overrides if option.startswith("impl=")], None, usual=STEADY)
    given = {option.partition("=")[0] for option in overrides}
    chosen = {}
    for axis, values in config.axes.items():
        is_default = axis not in given and values == default.axes[axis]
        if len(values) != 1 and not is_default and axis != "impl":
            raise UsageError(f"explain takes one case: give one value of {axis}")
        # Only sizes have several default values. Of the layers, any will do: each side has its own.
        chosen[axis] = values[-1] if axis == "impl" else max(values)
    return config, Case(**chosen)


@contextmanager
def _open_layers(sides: Sequence[str], config: SweepConfig) -> Iterator[list[Session]]:
    """One session for both layers of the working tree."""
    with Session.of(config) as session:
        for impl in sides:
            session.describe(impl)
        yield [session, session]


@contextmanager
def _open_commits(sides: Sequence[str], config: SweepConfig) -> Iterator[list[Session]]:
    """A session for each commit, which is checked out in a temporary directory unless it is the working tree."""
    impls = config.axes["impl"]
    if len(impls) != 1:
        raise UsageError("two commits are compared in one layer: give one value of impl")
    if not layer_lookup.is_foreign(impls[0]) or layer_lookup.is_in_a_file(impls[0]):
        raise UsageError(f"impl={impls[0]}: two commits need a layer of this repository, as module:Class")
    commits = [_commit_of(word) for word in sides]
    if commits[0] == commits[1]:
        raise UsageError(f"{sides[0]} and {sides[1]} are the same commit: name another one")
    here = [word == _WORKING_TREE or (word == "HEAD" and not has_uncommitted_changes()) for word in sides]
    with ExitStack() as stack:
        trees = {
            commit: stack.enter_context(worktree(commit))
            for commit, is_here in zip(commits, here, strict=True)
            if not is_here and commit is not None
        }
        sessions = []
        for word, commit in zip(sides, commits, strict=True):
            tree = trees.get(commit) if commit is not None else None
            own = next(iter(trees.values())).own_path(sys.path)
            runtime = Runtime(path=tree.path(sys.path) if tree is not None else own)
            session = stack.enter_context(Session.of(config, None, runtime))
            described = session.executor.ask("describe", Case(impls[0], 1, 1, 1))
            if not described.ok:
                raise UsageError(f"{word}: impl '{impls[0]}': {described.reason}")
            if tree is not None and not tree.holds(impls[0], described.values.get("file")):
                raise UsageError(f"{word}: the commit lacks the layer {impls[0]}: name a commit that has it")
            sessions.append(session)
        yield sessions


def _commit_of(word: str) -> str | None:
    """The commit's hash; None for a working tree with changes. Raises UsageError for any other word."""
    commit = find_commit("HEAD" if word == _WORKING_TREE else word)
    if _is_layer(word):
        if commit:
            raise UsageError(
                f"'{word}' is a layer and a commit. For the commit, type its hash, {commit[:10]}; for the layer, leave "
                "impl= out"
            )
        raise UsageError(f"'{word}' is a layer, and impl= names one too. Name two commits, or leave impl= out")
    if commit is None:
        raise UsageError(f"{word}: git knows no such commit here (a shallow clone may lack it: fetch it)")
    return None if word == _WORKING_TREE and has_uncommitted_changes() else commit
