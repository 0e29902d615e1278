"""Thousands of made-up command lines of `sweep`: their exit status, their messages, and the violations.

Each is carried out in this process, with trials that only pretend: a third of them with `--dry-run` or `--cfg`, a third
as they are, and a third on an existing run. The aim is no violation, which is an exit status other than 0, 2 or
3, an exception, a refusal in more than one line, or a file outside `out`.

    HARNESS_BENCH_COMMANDS=2000    the number of command lines
    HARNESS_BENCH_SEED=1           others
"""

import os
import re
import time
from collections import Counter
from dataclasses import dataclass, field

from cli.command_lines import command_lines, going_on
from cli.in_scratch import Scratch, violations
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from rich.console import Console
from rich.markup import escape
from rich.table import Table

COMMANDS = int(os.environ.get("HARNESS_BENCH_COMMANDS", "2000"))
SEED = int(os.environ.get("HARNESS_BENCH_SEED", "0"))
SHOWN = 12
_flag = st.sampled_from(("--dry-run", "--cfg"))
_LINES = {
    "--dry-run, --cfg": st.builds(lambda flag, arguments: [flag, *arguments], _flag, command_lines()),
    "measuring": command_lines(),
    "going on": going_on(),
}


@dataclass
class Tally:
    """How the command lines ended: by kind the exit statuses, what was said, and those that ended as none may."""

    ended: dict[str, Counter[int | None]] = field(default_factory=dict)
    said: Counter[str] = field(default_factory=Counter)
    bad: list[tuple[list[str], list[str]]] = field(default_factory=list)
    slowest: tuple[float, list[str]] = (0.0, [])


def test_command_lines() -> None:
    tally = Tally()
    with Scratch() as scratch:
        for kind, lines in _LINES.items():
            carry_out(scratch, kind, lines, tally)
    show(tally)
    assert not tally.bad


def carry_out(scratch: Scratch, kind: str, lines: st.SearchStrategy[list[str]], tally: Tally) -> None:
    """A share of the command lines, all of this kind."""
    ended = tally.ended[kind] = Counter()

    @seed(SEED)
    @settings(max_examples=-(-COMMANDS // len(_LINES)), deadline=None, database=None, suppress_health_check=HealthCheck)
    @given(lines)
    def one(arguments: list[str]) -> None:
        began = time.monotonic()
        outcome = scratch.carried_out(arguments)
        tally.slowest = max(tally.slowest, (time.monotonic() - began, arguments))
        ended[outcome.status] += 1
        if outcome.status == 2:
            tally.said[_kind_of(outcome.err)] += 1
        found = violations(outcome)
        if found:
            tally.bad.append((arguments, found))

    one()


def _kind_of(message: str) -> str:
    """The message less what it quotes: names and numbers."""
    first = message.removeprefix("harness: ").split(";")[0].split(" known:")[0]
    return re.sub(r"'.*'|\[.*\]|=\S+|-?\d[\d.e+,]*", "…", " ".join(first.split()))[:90]


def show(tally: Tally) -> None:
    """Tables, and the shortest of the command lines that end as none may."""
    console = Console()
    table = Table("command lines", "in all", "0", "2", "3", "else", title=f"seed {SEED}")
    for kind, counts in tally.ended.items():
        rest = counts.total() - sum(counts[status] for status in (0, 2, 3))
        table.add_row(kind, *(f"{number:,}" for number in (counts.total(), counts[0], counts[2], counts[3], rest)))
    console.print(table)
    messages = Table("times", "said", title=f"{len(tally.said)} kinds of refusals, the most frequent")
    for message, times in tally.said.most_common(SHOWN):
        messages.add_row(f"{times:,}", escape(message))
    console.print(messages)
    seconds, arguments = tally.slowest
    console.print(f"slowest: {seconds:.1f} s, {escape(repr(arguments)[:200])}", highlight=False)
    console.print(f"violations: {len(tally.bad)} (to be reached: 0)", highlight=False)
    for arguments, found in sorted(tally.bad, key=lambda one: len(repr(one)))[:SHOWN]:
        print(f"{arguments!r:.600}\n    {'; '.join(found):.600}")
