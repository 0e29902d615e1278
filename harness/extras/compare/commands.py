"""The commands `compare` and `explain`, about two layers or commits: which is slower, and where their calls differ.

`compare impl=A,B` measures two layers, and `compare ref=<git ref>` the same layers at two commits. `compare side='…'
side='…'` measures one layer with two settings, variables or interpreters, and `env=A,B` in two environments. Both sides
are verified and their facts are taken before any timing.
"""

import argparse
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from harness.cli.commands import CASES_FAILED, DONE
from harness.core.config import SweepConfig, compose
from harness.core.config.key_value_options import Key, present_option, take_keys, whole
from harness.core.layers import layer_lookup
from harness.core.model import file_io, formatting
from harness.core.model.background_process import interpreter_of
from harness.core.model.case_grid import collapsed
from harness.core.model.errors import UsageError, ended_by_changed_code, notify
from harness.core.model.sweep_axes import Case
from harness.core.results import run_directory
from harness.core.run.fork_client import Runtime
from harness.core.run.session import Session
from harness.study.check.baseline import read_baseline
from harness.study.check.check_rules import Outcome, Verdict
from harness.study.check.reporters import GateReport, check_outputs
from harness.study.report.document import markdown, show
from impls.registry import IMPLS

from .compared_sides import RESULT, ComparisonRequest, check_directory, measure_comparison
from .explanation import trace_pair
from .options import IN_TURNS, MINUTES, STEADY, THRESHOLD, check_in_turns, names_and_settings
from .paired_evidence import Rules
from .report import (
    ADVICE,
    TIME,
    closing_sentence,
    comparison_sentences,
    comparison_table,
    outcomes_of,
    show_comparison,
    versions_sentences,
)
from .side_settings import SideSettings, read_sides
from .worktree import UnknownCommit, choice_sentences, commit_of, has_uncommitted_changes, worktree

_FORMS = (
    "'python -m harness explain attention.naive attention.fused', or "
    "'python -m harness explain main . impl=module:Class'"
)
_WORKING_TREE = "."


def run_explain(options: argparse.Namespace) -> int:
    """Trace both sides, show and write what differs, and return the exit status."""
    sides, overrides = names_and_settings([options.a, options.b, *map(present_option, options.overrides)])
    if len(sides) != 2:
        raise UsageError(f"explain takes two sides, and got {' '.join(sides) or 'none'}: {_FORMS}")
    of_commits = any(option.startswith("impl=") for option in overrides)
    if not of_commits:
        for word in sides:
            if not _is_layer(word) and (word == _WORKING_TREE or _is_commit(word)):
                both = "name the layer to compare at both commits, impl=module:Class"
                raise UsageError(f"'{word}' is a commit: {both}")
            layer_lookup.check_name(word)
        overrides.append(f"impl={','.join(dict.fromkeys(sides))}")
    config, case = _one_case(overrides, options.config_dir)
    out = config.out or run_directory.unused_path("explain_")
    run_directory.check_new(out)
    console = Console(highlight=False)
    with _open_commits(sides, config) if of_commits else _open_layers(sides, config) as sessions:
        pair = []
        for letter, name, session in zip("ab", sides, sessions, strict=True):
            try:
                session.check_devices(config)
                with_layer = collapsed(replace(case, impl=case.impl if of_commits else name), session.has_heads)
                (traced,) = session.distinct_cases(config, [with_layer])
            except UsageError as error:
                raise UsageError(f"{name}: {error}" if of_commits else str(error)) from error
            pair.append((name, letter, session.executor, traced))
        cases = [traced for *_, traced in pair]
        # A side may lack heads or an own axis.
        sizes = max((str(traced).partition(" ")[2] for traced in cases), key=len)
        title = f"{sides[1]} compared with {sides[0]}: {f'{case.impl} ' if of_commits else ''}{sizes}"
        out.mkdir(parents=True, exist_ok=True)
        explanation = trace_pair(title, pair, out)
    if explanation.failure:
        with suppress(OSError):  # it holds the trace of the other side
            out.rmdir()
        notify(formatting.printable(explanation.failure))
        return CASES_FAILED
    show(explanation.parts(brief=True), console)
    (out / "explain.md").write_text(markdown(explanation.section()), encoding="utf-8")
    as_dicts = [traced.as_dict() for traced in cases]
    file_io.write_json(out / "explain.json", {**explanation.as_dict(), "cases": as_dicts})
    console.out(f"{out}: explain.md, explain.json, {', '.join(explanation.files)}")
    return DONE


def _is_layer(word: str) -> bool:
    return word in IMPLS or layer_lookup.is_foreign(word)


def _is_commit(word: str) -> bool:
    try:
        commit_of(word)
        return True
    except UsageError:  # without git, or outside a repository, the word can only mean a layer
        return False


def _one_case(overrides: Sequence[str], config_dir: Path | None) -> tuple[SweepConfig, Case]:
    """The configuration and its one case. Of an axis that is not given, the largest of the default values is taken."""
    config = compose(overrides, config_dir, usual=STEADY)
    # A preset also sets axes. Several values that it sets were chosen, so none of them is dropped.
    default = compose([option for option in overrides if option.startswith("impl=")], None, usual=STEADY)
    named = {option.partition("=")[0] for option in overrides}
    chosen = {}
    for axis, values in config.axes.items():
        is_default = axis not in named and values == default.axes[axis]
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
        trees = [
            None if is_here else stack.enter_context(worktree(str(commit)))
            for commit, is_here in zip(commits, here, strict=True)
        ]
        own_path = next(filter(None, trees)).own_path(sys.path)
        sessions = []
        for word, tree in zip(sides, trees, strict=True):
            runtime = Runtime(path=tree.path(sys.path) if tree is not None else own_path)
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
    try:
        commit = commit_of("HEAD" if word == _WORKING_TREE else word).hash
    except UnknownCommit as error:
        if _is_layer(word):
            text = f"'{word}' is a layer, and impl= names one too. Name two commits, or leave impl= out"
            raise UsageError(text) from error
        text = f"{word}: git knows no such commit here (a shallow clone may lack it: fetch it)"
        raise UsageError(text) from error
    if _is_layer(word):
        raise UsageError(
            f"'{word}' is a layer and a commit. For the commit, type its hash, {commit[:10]}; for the layer, leave "
            "impl= out"
        )
    return None if word == _WORKING_TREE and has_uncommitted_changes() else commit


_RULES = Rules()
_KEYS = (
    *map(Key, ("ref", "env", "control")),
    replace(THRESHOLD, default=_RULES.threshold),
    Key("blocks", whole, _RULES.most_blocks, least=_RULES.fewest_blocks, most=1000),
    MINUTES,
)
_SIDE = "side="
_KNOWN_BAD = "known-bad commit"


def read_comparison_request(
    overrides: Sequence[str], config_dir: Path | None, changed: str | None = None
) -> ComparisonRequest:
    """Parse and check the command line. Raises UsageError for invalid arguments."""
    keys, settings = take_keys(overrides, _KEYS)
    texts = [text.removeprefix(_SIDE) for text in settings if text.startswith(_SIDE)]
    settings = [text for text in settings if not text.startswith(_SIDE)]
    for name in ("ref", "env", "control"):
        if keys[name] == "":
            raise UsageError(f"'{name}=' is not of the form {name}=…")
    sides = _settings_of_sides(keys, texts, settings, config_dir)
    # With more blocks than usual, the looks go on at the same ratio: a case is still stopped soon after it is decided.
    looks, most = list(_RULES.looks), -(-keys["blocks"] // _RULES.generation)
    while looks[-1] < most:
        looks.append(looks[-1] * 3 // 2)
    rules = Rules(threshold=keys["threshold"], looks=(*(look for look in looks if look < most), most))
    config = compose(settings, config_dir, usual=IN_TURNS)
    impls = None
    if keys["ref"] is None and sides is None:
        impls = config.axes["impl"]
        if len(impls) != 2:
            raise UsageError(
                "compare takes two layers, impl=A,B; or a commit to compare with, ref=main; or two sides of one layer, "
                "side='threads=1' side='threads=8'"
            )
    for side_config in (config, *(side.config for side in sides or ())):
        check_in_turns(side_config)
    control = interpreter_of(keys["control"]) if keys["control"] else None
    if changed is not None and keys["ref"] is None:
        raise UsageError("--changed needs a commit to compare with: give ref=origin/main")
    return ComparisonRequest(config, rules, keys["ref"], impls, keys["minutes"], sides, control, changed=changed)


def _settings_of_sides(
    keys: Mapping[str, Any], texts: Sequence[str], overrides: Sequence[str], config_dir: Path | None
) -> tuple[SideSettings, SideSettings] | None:
    """The sides that `side=` or `env=` gives; None if two layers or two commits are compared."""
    if keys["env"] is not None and texts:
        raise UsageError("env=A,B gives both sides: leave side= out, or give side='python=A' and side='python=B'")
    if keys["env"] is not None:
        texts = [f"python={shlex.quote(environment)}" for environment in keys["env"].split(",")]
        if len(texts) != 2:
            raise UsageError(f"env={keys['env']}: compare takes two environments, env=.venv-a,.venv-b")
    sides = None
    if texts:
        if keys["ref"] is not None:
            raise UsageError(f"ref={keys['ref']} gives both sides: leave side= and env= out")
        sides = read_sides(texts, overrides, config_dir)
        if len(sides[0].config.axes["impl"]) != 1:
            raise UsageError("two sides are of one layer: give impl=LAYER")
    if keys["control"] is not None and not (sides and sides[0].runtime.python):
        raise UsageError(f"control={keys['control']} is a copy of the base's environment: give env=A,B too")
    return sides


def run_compare(options: argparse.Namespace) -> int:
    """Run the comparison and return its exit status."""
    check_outputs(options)
    request = read_comparison_request(options.overrides, options.config_dir, options.changed)
    known_bad = _commits_to_find(options.prove, request)
    out = request.config.out or run_directory.unused_path("compare_")
    check_directory(out)
    console = Console(highlight=False)
    try:
        with ended_by_changed_code(out):
            comparison, properties, lacking = measure_comparison(request, out, console)
        proofs = [_prove(commit, request, out, console) for commit in known_bad]
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"repeat the command with 'out={out}' to continue") from None
    remarks = list(choice_sentences(properties, request.ref, request.changed))
    if nothing_due := request.changed is not None and not comparison.compared:
        remarks.append(f"The changes since {request.ref} touch none of these layers: no layer was measured.")
        print(*remarks, sep="\n")
    else:
        remarks += [*versions_sentences(properties), *comparison_sentences(comparison)]
        show_comparison(request.title, comparison, console)
    for outcome in (*lacking, *proofs):
        console.out(formatting.printable(f"{outcome.subject}: {outcome.reason}."))
    outcomes = [*outcomes_of(comparison), *lacking, *proofs]
    report = GateReport(request.title, outcomes, remarks, properties, comparison.explanations, nothing_due, ADVICE)
    report.publish(options)
    if nothing_due:
        return report.exit_status
    (out / RESULT).write_text(file_io.to_csv(comparison_table(comparison, properties)), encoding="utf-8")
    report.write(out / "comparison")
    files = "comparison.csv, .md, .xml, .json, blocks.jsonl; a run of each side in base/, head/"
    console.out(f"{out}: {files}")
    console.out(closing_sentence(report))
    return report.exit_status


def _commits_to_find(file: Path | None, request: ComparisonRequest) -> Sequence[str]:
    """The known-bad commits in a baseline. Raises UsageError if it names none."""
    if file is None:
        return ()
    if request.ref is None:
        raise UsageError(f"--prove {file} needs a commit to compare with: give ref=origin/main")
    known_bad = read_baseline(file).known_bad
    if not known_bad:
        raise UsageError(f"{file} names no known-bad commit: python -m harness baseline RUN -o FILE --known-bad COMMIT")
    return known_bad


def _prove(commit: str, request: ComparisonRequest, out: Path, console: Console) -> Outcome:
    """Whether the gate calls a layer slower at the known-bad `commit` than at its parent, as an outcome."""
    short = commit[:12]
    proof = replace(request, ref=f"{short}^", head=short, changed=None)
    try:
        comparison, _, lacking = measure_comparison(proof, out / "known-bad" / short, console)
    except UsageError as error:
        return Outcome(short, _KNOWN_BAD, Verdict.UNMEASURED, "", "", f"the gate could not be proved: {error}")
    times = [outcome for outcome in outcomes_of(comparison) if outcome.quantity == TIME]
    for outcome in times:
        if outcome.verdict is Verdict.WORSE:
            why = f"the gate found its slow-down: {outcome.subject} {outcome.now}"
            return Outcome(short, _KNOWN_BAD, Verdict.EQUIVALENT, "slower", outcome.now, why)
    why = "; ".join(f"{outcome.subject}: {outcome.reason or outcome.now}" for outcome in [*times, *lacking])
    why = f"the gate did not find the slow-down of {short} ({why})"
    return Outcome(short, _KNOWN_BAD, Verdict.UNMEASURED, "slower", "", why)
