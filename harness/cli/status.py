"""The command `status RUN`: how far a sweep is, from its files alone."""

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness import store
from harness.case import Case
from harness.cli import DONE
from harness.cli.options import Parser
from harness.formatting import printable
from harness.measure.cluster_shards import State, read_plan, read_state
from harness.results.run_directory import read_run_directory
from harness.results.table import CaseResult
from harness.store.directory import holder

_STATUS_EPILOG = """\
A case is finished once it has all its trials, or has failed. Before that, it counts as `begun` if it has rows, and as
`not yet` if it has none.

exit status: 0, whatever the progress; 2 usage error, or a directory that is not a run
"""


def run_status(arguments: Sequence[str]) -> int:
    """Show the progress of a run."""
    parser = Parser("status", "Show how far a sweep is, from its files alone. Measures nothing.", _STATUS_EPILOG)
    parser.add_argument("run", type=Path, metavar="RUN", help="a run's directory, such as results/latest")
    path = parser.parse_args(arguments).run
    store.check_run(path)
    stored = read_run_directory(path)
    console = Console()
    lines = {line.case: line for line in stored.lines}
    console.print(escape(printable(f"{path}: {_counts(list(lines.values()))}")), highlight=False)
    plan = read_plan(path)
    if plan is not None:
        console.print(_shards(path, plan, lines))
    if plan is None or holder(path)[0] is not None:  # shards hold no lock: their states name the processes
        console.print(escape(printable(_writer(path))), highlight=False)
    for notice in stored.notices:
        console.print(escape(printable(notice)), highlight=False)
    return DONE


def _counts(lines: Sequence[CaseResult]) -> str:
    if not lines:
        return "no case has rows yet"
    open_ = sum(not _is_finished(line) for line in lines)
    failed = Counter(line.status for line in lines if line.status != "ok")
    told = "".join(f", {number} {status}" for status, number in sorted(failed.items()))
    return f"{len(lines)} cases have rows: {len(lines) - open_} finished{told}, {open_} begun"


def _is_finished(line: CaseResult) -> bool:
    return line.stop_reason != "interrupted"


def _shards(path: Path, plan: Sequence[Sequence[Case]], lines: dict[Case, CaseResult]) -> Table:
    table = Table()
    for heading in ("shard", "state", "host", "job", "finished", "begun", "not yet", "last word"):
        table.add_column(heading, justify="right" if heading in ("finished", "begun", "not yet") else "left")
    for index, cases in enumerate(plan):
        known = [lines[case] for case in cases if case in lines]
        finished = sum(map(_is_finished, known))
        state = read_state(path, index)
        where = (state.state, state.host, state.job or f"process {state.pid}") if state else ("waiting", "", "")
        numbers = (finished, len(known) - finished, len(cases) - len(known))
        table.add_row(str(index), *map(printable, where), *map(str, numbers), _ago(state))
    return table


def _ago(state: State | None) -> str:
    if state is None:
        return ""
    seconds = max(0.0, time.time() - state.at)
    return f"{seconds:.0f} s ago" if seconds < 120 else f"{seconds / 60:.0f} min ago"


def _writer(path: Path) -> str:
    who, alive = holder(path)
    if who is None:
        return "No process is measuring this run now."
    if alive is None:
        return f"The lock names {who.rstrip(',')}. Only that machine can tell whether the process still runs."
    return (
        f"Measured now by {who.rstrip(',')}."
        if alive
        else f"{who} stopped before its end. Run the same command to continue."
    )
