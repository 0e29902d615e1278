"""The command `bisect`: find the commit at which a layer became slower or faster, or its FLOPs or memory changed."""

import argparse
import shlex
import sys

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness import formatting
from harness.cli.commands import CASES_FAILED, DONE, INTERRUPTED
from harness.cli.option_forms import IN_TURNS, MINUTES, THRESHOLD, check_in_turns
from harness.config import compose
from harness.errors import UsageError
from harness.gate.bisect import CONTROL_DIFFERS, ENDS_UNCLEAR, NO_DIFFERENCE, BisectRequest, Findings, Step, bisect
from harness.key_value_options import take_keys
from harness.layer_lookup import is_foreign, is_in_a_file
from harness.results import run_directory
from harness.results.columns import FACT_NAMES
from harness.stats.change_position import TIME_IS_UP, TWO_STEPS
from harness.sweep_axes import OWN_ENVIRONMENT, Case
from harness.worktree import commits_between, unmeasured_changes

_MOST_SHOWN = 5


def read_bisect_request(options: argparse.Namespace) -> BisectRequest:
    """Check the command line. Raises UsageError for invalid arguments, and for more than one case."""
    own, rest = take_keys(options.overrides, (THRESHOLD, MINUTES))
    config = compose(rest, options.config_dir, usual=IN_TURNS)
    check_in_turns(config)
    several = [name for name, values in config.axes.items() if len(values) != 1]
    if several:
        raise UsageError(f"bisect takes one case: give one value of {', '.join(several)}")
    case = Case(**{name: values[0] for name, values in config.axes.items()})
    if case.env != OWN_ENVIRONMENT:
        raise UsageError(f"env={case.env}: bisect compares commits in its own environment: leave env out")
    if not is_foreign(case.impl) or is_in_a_file(case.impl):
        raise UsageError(f"impl={case.impl}: bisect needs a layer of this repository, as module:Class")
    return BisectRequest(config, case, commits_between(options.span), own["threshold"], own["minutes"], options.time)


def run_bisect(options: argparse.Namespace) -> int:
    """Search for the commit and return the exit status."""
    request = read_bisect_request(options)
    if unmeasured := unmeasured_changes(request.commits):
        print(f"harness: {unmeasured}", file=sys.stderr)
    out = request.config.out or run_directory.unused_path("bisect_")
    console = Console()
    try:
        found = bisect(request, out, lambda line: console.out(formatting.printable(line), highlight=False))
    except KeyboardInterrupt:
        print(f"harness: interrupted; repeat the command with 'out={out}' to continue", file=sys.stderr)
        return INTERRUPTED
    return _show(request, found, str(out), console)


def _interval(step: Step) -> str:
    return (
        f"{formatting.change(step.middle)} (95 % interval {formatting.change(step.lo)} – {formatting.change(step.hi)})"
    )


def _show(request: BisectRequest, found: Findings, out: str, console: Console) -> int:
    def name(first: int, last: int) -> str:
        more = f", or at one of {last - first} before it that cannot be measured" if last > first else ""
        return f"{request.commits[last].name}{more}"

    def say(text: str) -> None:
        console.print(Text(text))

    for fact, change in found.facts.items():
        again = "; it changes again later" if change.returns else ""
        say(f"{FACT_NAMES[fact]}: from {change.was} to {change.now} at {name(change.first, change.last)}{again}.")
    if found.failure:
        say(f"not measurable: {found.failure}")
        return CASES_FAILED
    answer, longer = found.answer, shlex.join([f"minutes={2 * request.minutes:g}", f"out={out}"])
    if found.why == CONTROL_DIFFERS and found.control is not None:
        say(
            f"undecided: the first commit, measured against itself, came out {_interval(found.control)}. "
            "Repeat the command with a new out= when the machine is quiet."
        )
        return CASES_FAILED
    if found.why == NO_DIFFERENCE and found.difference is not None:
        say(f"There is no difference of {100 * request.threshold:g} % to look for: {_interval(found.difference)}.")
    if found.why == ENDS_UNCLEAR and found.difference is not None:
        say(
            f"undecided: {_interval(found.difference)} between both ends neither shows nor excludes a difference of "
            f"{100 * request.threshold:g} %. Repeat the command with a new out= when the machine is quiet."
        )
        return CASES_FAILED
    if answer is None and found.why == TIME_IS_UP:
        say(f"undecided: the time was up before both ends were compared. Repeat the command with {longer}")
        return CASES_FAILED
    if answer is None:
        return DONE
    table = Table("commit", "subject", "probability", box=box.SIMPLE_HEAD)
    for one in sorted(answer.candidates, key=lambda one: -one.probability)[:_MOST_SHOWN]:
        commit = request.commits[one.last]
        table.add_row(commit.hash[:10], Text(commit.subject), f"{one.probability:.2f}")
    console.print(table)
    if found.why == TIME_IS_UP:
        say(f"undecided: the time is up. Repeat the command with {longer}")
        return CASES_FAILED
    if found.why == TWO_STEPS and answer.pair is not None:
        first, second = (name(at, at) for at in answer.pair)
        span = f"{request.commits[0].hash[:10]}..{request.commits[answer.pair[1] - 1].hash[:10]}"
        say(
            f"The time changes at more than one commit. The likeliest two are {first} and {second}, with probability "
            f"{answer.pair_probability:.2f}. Search a shorter range next, such as {span}."
        )
        return DONE
    step, at = Step(answer.step, answer.lo, answer.hi), name(answer.best.first, answer.best.last)
    say(f"The time changes by {_interval(step)} at {at}.")
    if found.neighbours is not None:
        say(f"Side by side with the commit before, the change is {_interval(found.neighbours)}.")
    return DONE
