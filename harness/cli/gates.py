"""The commands `check`, `compare` and `baseline`. The first two report by exit status whether anything got worse.

`check` measures a baseline's cases again, with the scheduler of `sweep`, and selects cases with the overrides of its
axes. `compare impl=A,B` measures two layers, and `compare ref=<git ref>` the same layers at two commits. `compare
side='…' side='…'` measures one layer with two settings, variables or interpreters, and `env=A,B` in two environments.
Both sides are verified and their facts are taken before any timing.
"""

import argparse
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console

import harness
from harness import file_io, formatting, layer_lookup
from harness.analysis import claims_table, fitted_laws
from harness.background_process import interpreter_of
from harness.cli.commands import DONE
from harness.cli.option_forms import IN_TURNS, MINUTES, THRESHOLD, check_in_turns
from harness.config import compose
from harness.errors import UsageError, ended_by_changed_code
from harness.extras.compare.changed_layers import choice_sentences
from harness.extras.compare.compared_sides import RESULT, ComparisonRequest, check_directory, measure_comparison
from harness.extras.compare.comparison import TIME, comparison_table, outcomes_of
from harness.extras.compare.paired_evidence import Rules
from harness.extras.compare.paired_verdicts import Verdict
from harness.extras.compare.side_settings import SideSettings, read_sides
from harness.extras.compare.worktree import commit_of
from harness.gate.baseline import baseline_of, baseline_text, read_baseline, write_baseline
from harness.gate.check import Remeasurement, check_remarks, choose_cases, judge_twice, split_filters
from harness.gate.check_rules import ERROR_FACTOR, Outcome
from harness.gate.reporters import GateReport, check_outputs, comparison_sentences, show_comparison, versions_sentences
from harness.key_value_options import Key, take_keys, whole
from harness.results import run_directory, stored_run
from harness.sweep_axes import OWN_ENVIRONMENT

_RULES = Rules()
_KEYS = (
    *map(Key, ("ref", "env", "control")),
    replace(THRESHOLD, default=_RULES.threshold),
    Key("blocks", whole, _RULES.most_blocks, least=_RULES.fewest_blocks, most=1000),
    MINUTES,
)
_ERROR_FACTOR = Key(
    "error_factor", float, ERROR_FACTOR, least=1.0, most=math.inf, takes="a number from 1 on; inf judges no error"
)
_SIDE = "side="
_KNOWN_BAD = "known-bad commit"


def read_comparison_request(
    overrides: Sequence[str], config_dir: Path | None, changed: str | None = None
) -> ComparisonRequest:
    """Parse and check the command line. Raises UsageError for invalid arguments."""
    own, rest = take_keys(overrides, _KEYS)
    texts = [text.removeprefix(_SIDE) for text in rest if text.startswith(_SIDE)]
    rest = [text for text in rest if not text.startswith(_SIDE)]
    for name in ("ref", "env", "control"):
        if own[name] == "":
            raise UsageError(f"'{name}=' is not of the form {name}=…")
    impls, sides = None, _settings_of_sides(own, texts, rest, config_dir)
    if own["ref"] is None and sides is None:
        impls = _two_sides([text for text in rest if text.startswith("impl=")])
        rest = [text for text in rest if not text.startswith("impl=")] + [f"impl={','.join(dict.fromkeys(impls))}"]
    # With more blocks than usual, the looks go on at the same ratio: a case is still stopped soon after it is decided.
    looks, most = list(_RULES.looks), -(-own["blocks"] // _RULES.generation)
    while looks[-1] < most:
        looks.append(looks[-1] * 3 // 2)
    rules = Rules(threshold=own["threshold"], looks=(*(look for look in looks if look < most), most))
    config = compose(rest, config_dir, usual=IN_TURNS)
    for one in (config, *(side.config for side in sides or ())):
        check_in_turns(one)
    control = interpreter_of(own["control"]) if own["control"] else None
    if changed is not None and own["ref"] is None:
        raise UsageError("--changed needs a commit to compare with: give ref=origin/main")
    return ComparisonRequest(config, rules, own["ref"], impls, own["minutes"], sides, control, changed=changed)


def _settings_of_sides(
    own: Mapping[str, Any], texts: Sequence[str], overrides: Sequence[str], config_dir: Path | None
) -> tuple[SideSettings, SideSettings] | None:
    """The sides that `side=` or `env=` gives; None if two layers or two commits are compared."""
    if own["env"] is not None and texts:
        raise UsageError("env=A,B gives both sides: leave side= out, or give side='python=A' and side='python=B'")
    if own["env"] is not None:
        texts = [f"python={shlex.quote(environment)}" for environment in own["env"].split(",")]
        if len(texts) != 2:
            raise UsageError(f"env={own['env']}: compare takes two environments, env=.venv-a,.venv-b")
    sides = None
    if texts:
        if own["ref"] is not None:
            raise UsageError(f"ref={own['ref']} gives both sides: leave side= and env= out")
        sides = read_sides(texts, overrides, config_dir, IN_TURNS)
        if len(sides[0].config.axes["impl"]) != 1:
            raise UsageError("two sides are of one layer: give impl=LAYER")
    if own["control"] is not None and not (sides and sides[0].runtime.python):
        raise UsageError(f"control={own['control']} is a copy of the base's environment: give env=A,B too")
    return sides


def _two_sides(given: Sequence[str]) -> tuple[str, str]:
    names = [name.strip() for text in given for name in text.removeprefix("impl=").split(",")]
    if len(given) != 1 or len(names) != 2:
        raise UsageError(
            "compare takes two layers, impl=A,B; or a commit to compare with, ref=main; or two sides of one layer, "
            "side='threads=1' side='threads=8'"
        )
    for name in names:
        layer_lookup.check_name(name)
    if names[0] == names[1]:
        raise UsageError(
            f"both layers are {names[0]}: name another one, or compare two settings of it, side='seq_len=512' "
            "side='seq_len=1024'"
        )
    return names[0], names[1]


def run_compare(options: argparse.Namespace) -> int:
    """Run the comparison and return its exit status."""
    check_outputs(options)
    request = read_comparison_request(options.overrides, options.config_dir, options.changed)
    known_bad = _commits_to_find(options.prove, request)
    out = request.config.out or run_directory.unused_path("compare_")
    check_directory(out)
    console = Console()
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
    for one in (*lacking, *proofs):
        console.out(formatting.printable(f"{one.subject}: {one.reason}."), highlight=False)
    outcomes = [*outcomes_of(comparison), *lacking, *proofs]
    report = GateReport(request.title, outcomes, remarks, properties, comparison.explanations, nothing_due)
    report.publish(options)
    if nothing_due:
        return report.exit_status
    (out / RESULT).write_text(file_io.to_csv(comparison_table(comparison, properties)), encoding="utf-8")
    report.write(out / "comparison")
    files = "comparison.csv, .md, .xml, .json, blocks.jsonl; a run of each side in base/, head/"
    console.out(f"{out}: {files}", highlight=False)
    console.out(report.closing_sentence, highlight=False)
    return report.exit_status


def _commits_to_find(file: Path | None, request: ComparisonRequest) -> Sequence[str]:
    """The known-bad commits in a baseline. Raises UsageError if it names none."""
    if file is None:
        return ()
    if request.ref is None:
        raise UsageError(f"--prove {file} needs a commit to compare with: give ref=origin/main")
    found = read_baseline(file).known_bad
    if not found:
        raise UsageError(f"{file} names no known-bad commit: python -m harness baseline RUN -o FILE --known-bad COMMIT")
    return found


def _prove(commit: str, request: ComparisonRequest, out: Path, console: Console) -> Outcome:
    """Whether the gate calls a layer slower at the known-bad `commit` than at its parent, as an outcome."""
    short = commit[:12]
    proof = replace(request, ref=f"{short}^", head=short, changed=None)
    try:
        comparison, _, lacking = measure_comparison(proof, out / "known-bad" / short, console)
    except UsageError as error:
        return Outcome(short, _KNOWN_BAD, Verdict.UNMEASURED, "", "", f"the gate could not be proved: {error}")
    times = [one for one in outcomes_of(comparison) if one.quantity == TIME]
    for one in times:
        if one.verdict is Verdict.WORSE:
            why = f"the gate found its slow-down: {one.subject} {one.now}"
            return Outcome(short, _KNOWN_BAD, Verdict.EQUIVALENT, "slower", one.now, why)
    why = "; ".join(f"{one.subject}: {one.reason or one.now}" for one in [*times, *lacking])
    why = f"the gate did not find the slow-down of {short} ({why})"
    return Outcome(short, _KNOWN_BAD, Verdict.UNMEASURED, "slower", "", why)


def run_check(options: argparse.Namespace) -> int:
    """Run the check and return its exit status."""
    check_outputs(options)
    was = read_baseline(options.file)
    own, rest = take_keys(options.overrides, (_ERROR_FACTOR,))
    axes, others = split_filters(rest)
    if not any(text.startswith("seed=") for text in others):
        others.append(f"seed={was.seed}")
    config = compose(others)
    console = Console()
    with TemporaryDirectory(prefix="harness-check-") as scratch:
        measured = Remeasurement(config, Path(scratch), console, not options.exact)
        with measured.session as session:
            cases = choose_cases(was.cases, axes, options.file, session.layers.options)
            outcomes, now = judge_twice(was, cases, measured, own["error_factor"])
    versions = {"torch": now.torch, "torch of the baseline": was.torch}
    report = GateReport(f"check {options.file}", outcomes, check_remarks(was, now, cases, outcomes), versions)
    report.show(console)
    report.publish(options)
    return report.exit_status


# Statuses that may be due to chance, and may not occur again.
_BY_CHANCE = ("timeout", "killed")


def _known_bad(options: argparse.Namespace) -> tuple[str, ...]:
    """The known-bad commits of the file that is replaced, and those of the command line."""
    before: tuple[str, ...] = ()
    if options.out is not None and options.out.is_file():
        try:
            before = read_baseline(options.out).known_bad
        except UsageError as error:
            print(f"harness: {error}; it is replaced, with its known-bad commits if it had any", file=sys.stderr)
    return tuple(dict.fromkeys([*before, *(commit_of(ref).hash for ref in options.known_bad)]))


def run_baseline(options: argparse.Namespace) -> int:
    """Write the known facts of a run's cases to a file that `check` reads."""
    stored = stored_run.read_run_directory(options.run)
    for notice in stored.notices:
        print(f"harness: {notice}", file=sys.stderr)
    if not any(line.status == "ok" for line in stored.lines):
        raise UsageError(f"{options.run} has no case that could be measured: its baseline would be empty")
    if all(line.flops is None and line.ops is None and line.peak_bytes is None for line in stored.lines):
        raise UsageError(f"{options.run} has only times: a baseline needs facts, which `sweep` measures")
    if named := sorted({line.env for line in stored.lines} - {OWN_ENVIRONMENT}):
        raise UsageError(f"{options.run} was measured in env={','.join(named)}: a baseline is of one environment")
    for line in stored.lines:
        if line.status in _BY_CHANCE:
            text = f"{line.case}: {line.status}: `check` never judges this case; measure it again"
            print(f"harness: {text}", file=sys.stderr)
    seed = stored.config.get("seed", 0)
    if type(seed) is not int:
        raise UsageError(f"{options.run}: seed={seed} in config.yaml is not a whole number")
    laws = fitted_laws.fit_laws(stored.lines)
    found = baseline_of(
        stored.lines, laws, claims_table.verdicts(stored.lines, laws), stored.machine, seed, harness.__version__
    )
    found = replace(found, known_bad=_known_bad(options))
    if options.out is None:
        print(baseline_text(found), end="")
        return DONE
    write_baseline(found, options.out)
    sizes = {"case": len(found.cases), "law": len(found.laws), "claim": len(found.claims)}
    print(f"{options.out}: {', '.join(formatting.counted(size, noun) for noun, size in sizes.items())}")
    return DONE
