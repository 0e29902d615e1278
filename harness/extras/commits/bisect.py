"""Find the commit at which a layer's facts or its time changed: `bisect GOOD..BAD`.

Each fact is searched for without a clock. The time is searched for only if no fact differs, or on request. Every block
and every fact is a row of `bisect.jsonl`. A command that continues reads these rows first, and so decides as before.

Two fork servers serve all commits: a trial searches the worktree of its commit for the layer. A fork server may be a
tenth slower than another by chance. Both sides of a pair therefore use both servers in turn, and the effect cancels.
"""

import math
import random
import shlex
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from harness.core.config import SweepConfig
from harness.core.config.compose import differences
from harness.core.config.machine import unlike
from harness.core.model import formatting
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.results import run_directory
from harness.core.results.row import StoredRow
from harness.core.run.executor import Executor
from harness.core.run.fork_client import OF_DRIVER
from harness.core.run.session import COMPILE_CACHE
from harness.extras import mean_interval
from harness.extras.compare.compared_sides import Log, commit_lacks, session_of_side
from harness.extras.compare.interleaved import Side, Sides, take_block
from harness.extras.compare.paired_evidence import Rules
from harness.extras.compare.paired_verdicts import BlockFailed
from harness.extras.compare.worktree import Commit, OpenWorktrees, Worktree

from .change_position import TIME_IS_UP, Answer, FirstChange, Step, first_change, search_step
from .history_file import FACT_NAMES

ROWS = "bisect.jsonl"
# Generations after which the control and the difference of the ends are looked at, while they are unclear.
_CONTROL, _ENDS = (4, 12), (12, 24, 48, 96)
# Renewed this often, so that a difference between servers averages out.
_GENERATIONS_OF_SERVERS = 6
_WORKTREES = 4
_WHEN_QUIET = "Repeat the command with a new out= when the machine is quiet."


@dataclass(frozen=True)
class BisectRequest:
    """What to look for: a change of the case between the first and the last of `commits`."""

    config: SweepConfig
    case: Case
    commits: list[Commit]
    threshold: float
    minutes: float
    always_time: bool

    @property
    def settings(self) -> dict[str, Any]:
        """What an interrupted command must have in common with one that continues it; it may get more minutes."""
        ends = {"good": self.commits[0].hash, "bad": self.commits[-1].hash}
        return {**yaml.safe_load(self.config.yaml), **ends, "threshold": self.threshold, "time": self.always_time}


@dataclass
class Findings:
    """What the search found: the change of each fact, and the answer about the time.

    `answer` is None if no position of a step was looked for. `why` says how that search ended, and `neighbours`
    compares the answer's commit with the one before. `no_difference` is a sentence if both ends have the same time.
    `problem` is one if something could not be measured, or if the time is undecided.
    """

    facts: dict[str, FirstChange] = field(default_factory=dict)
    answer: Answer | None = None
    why: str = ""
    neighbours: Step | None = None
    no_difference: str = ""
    problem: str = ""


def bisect(request: BisectRequest, out: Path, tell: Callable[[str], None]) -> Findings:
    """Search for the change. `tell` receives a line of progress after each measurement.

    Raises UsageError if `out` holds another search, or the same from another machine.
    """
    if not (out / ROWS).exists():
        run_directory.check_new(out)
    with ExitStack() as stack:
        out.mkdir(parents=True, exist_ok=True)
        stack.enter_context(run_directory.locked(out))
        search = _Search(request, out, tell)
        stack.enter_context(search.sides)
        stack.enter_context(search.trees)
        search.begin()
        last, findings = len(request.commits) - 1, Findings()
        for at in (0, last):
            if failure := search.facts(at).get("failure"):
                why = f"{request.commits[at].name}: {failure}"
                findings.problem = f"not measurable: {why}: name another end of the range"
                return findings
        changes = {name: first_change(last, partial(search.fact, name=name)) for name in FACT_NAMES}
        findings.facts = {name: change for name, change in changes.items() if change is not None}
        if request.always_time or not findings.facts:
            try:
                search.time(findings)
            except BlockFailed as error:
                findings.problem = f"not measurable: {error}"
        return findings


def _is_row(number: int, row: StoredRow) -> bool:
    """Whether a stored row has all that continuing a search needs. The first row holds the settings."""
    if number == 0:
        return "settings" in row and "machine" in row
    if str(row.get("key")).startswith("facts"):
        return "failure" in row or set(FACT_NAMES) <= set(row.get("facts") or ())
    return "key" in row and "took_s" in row and ("failure" in row or "log_ratio" in row)


class _Search:
    """Measures commits, or reads what an interrupted command measured."""

    def __init__(self, request: BisectRequest, out: Path, tell: Callable[[str], None]) -> None:
        self.request, self.out, self.tell = request, out, tell
        self._log = Log(out / ROWS, _is_row)
        self.used_s = 0.0
        self._known: dict[str, list[StoredRow]] = defaultdict(list)
        self._facts: dict[int, StoredRow] = {}
        self._blocks = Counter[tuple[int, int]]()
        self.trees = OpenWorktrees(_WORKTREES)
        self._executors: dict[tuple[int, Path], Executor] = {}
        self._generations = 0  # since the servers were renewed
        self._session = session_of_side(request.config, out / COMPILE_CACHE, OF_DRIVER)
        self.sides = Sides(self._session.executor, self._session.executor.twin(), interchangeable=True)

    def begin(self) -> None:
        """Read the rows of an interrupted command, or begin a new file. Raises UsageError for another search."""
        settings, machine = self.request.settings, self._session.machine()
        rows = self._log.read()
        if not rows:
            self._log.append({"settings": settings, "machine": machine})
            return
        unlike_before = [*differences(rows[0]["settings"], settings), *unlike(rows[0]["machine"], machine)]
        if unlike_before:
            raise UsageError(f"out={self.out} is another search ({'; '.join(unlike_before)}): name a new directory")
        for row in rows[1:]:
            self._known[row["key"]].append(row)

    def _row(self, key: str, measure: Callable[[], StoredRow]) -> StoredRow:
        if self._known[key]:
            return self._known[key].pop(0)
        at, began = round(time.time(), 3), time.monotonic()
        row = {"key": key, "at": at, **measure(), "took_s": round(time.monotonic() - began, 3)}
        self._log.append(row)
        return row

    def _executor(self, at: int, server: int) -> tuple[Executor, Worktree]:
        """An executor of the commit's layers that uses the first or second fork server, and the commit's worktree."""
        tree = self.trees.at(self.request.commits[at].hash)
        if (server, tree.at) not in self._executors:
            path, cache = tree.path(sys.path), self.out / COMPILE_CACHE / tree.commit
            self._executors[server, tree.at] = self.sides.all[server].searching(path, cache)
        return self._executors[server, tree.at], tree

    def facts(self, at: int) -> StoredRow:
        """The row with the `facts` of a commit, or with its `failure`, which was retried once."""
        if at not in self._facts:
            commit = self.request.commits[at]
            row = self._facts[at] = self._row(f"facts {commit.hash}", lambda: self._measure_facts(at))
            self.tell(f"{commit.name}: {row.get('failure', 'facts taken')}")
        return self._facts[at]

    def fact(self, at: int, name: str) -> Any:
        """One fact of a commit; None if the commit cannot be measured."""
        facts = self.facts(at).get("facts")
        if facts is None:
            return None
        return "none" if facts[name] is None else facts[name]

    def _measure_facts(self, at: int) -> StoredRow:
        executor, tree = self._executor(at, 0)
        impl = self.request.case.impl
        described = executor.ask("describe", Case(impl, 1, 1, 1))
        if commit_lacks(tree, impl, described):
            return {"failure": "the commit lacks the layer"}
        for _ in range(2):
            done = executor.ask("facts", self.request.case)
            if done.ok:
                return {"facts": {name: done.values.get(name) for name in FACT_NAMES}}
        return {"failure": f"{done.status}: {done.reason}"}

    def time(self, findings: Findings) -> None:
        """Search for a step of the time. Raises BlockFailed if an end cannot be measured."""
        last, apart = len(self.request.commits) - 1, math.log1p(self.request.threshold)
        control = self._while_unclear(0, _CONTROL, lambda step: not step.is_seen(apart / 2))
        of_bad = self._while_unclear(last, _ENDS, lambda step: step.is_seen(apart) or step.is_excluded(apart))
        longer = shlex.join([f"minutes={2 * self.request.minutes:g}", f"out={self.out}"])
        if len(of_bad) < _ENDS[0]:
            findings.problem = (
                f"undecided: the time was up before both ends were compared. Repeat the command with {longer}"
            )
            return
        itself, difference = Step(*mean_interval(control)), Step(*mean_interval(of_bad))
        sought = f"difference of {100 * self.request.threshold:g} %"
        if itself.is_seen(apart / 2):
            why = f"the first commit, measured against itself, came out {itself.text}"
            findings.problem = f"undecided: {why}. {_WHEN_QUIET}"
        elif difference.is_seen(apart):
            findings.answer, findings.why, beside = search_step(last, of_bad, apart, self._generation, self._has_time)
            findings.neighbours = Step(*mean_interval(beside)) if beside else None
            if findings.why == TIME_IS_UP:
                findings.problem = f"undecided: the time is up. Repeat the command with {longer}"
        elif difference.is_sure or difference.is_excluded(apart):
            findings.no_difference = f"There is no {sought} to look for: {difference.text}."
        else:
            why = f"{difference.text} between both ends neither shows nor excludes a {sought}"
            findings.problem = f"undecided: {why}. {_WHEN_QUIET}"

    def _has_time(self) -> bool:
        return self.used_s < 60 * self.request.minutes

    def _while_unclear(self, head: int, looks: Sequence[int], is_clear: Callable[[Step], bool]) -> list[float]:
        """Generations of `head` against the first commit: the first number of `looks` after which they are clear."""
        log_ratios: list[float] = []
        for look in looks:
            while len(log_ratios) < look and self._has_time():
                log_ratios.append(self._generation(0, head))
            if len(log_ratios) < look or is_clear(Step(*mean_interval(log_ratios))):
                break
        return log_ratios

    def _generation(self, base: int, head: int) -> float:
        """The mean log ratio of a generation of blocks, in new processes. A failed block is retried once.

        The second block has the sides' fork servers exchanged.
        """
        commits = self.request.commits
        key = f"blocks {commits[base].hash} {commits[head].hash} {self._blocks[base, head]}"
        self._blocks[base, head] += 1
        ratios: list[float] = []
        failed = 0
        server_of_base = random.Random(key).randrange(2)

        def measure() -> StoredRow:
            if not ratios:
                if self._generations % _GENERATIONS_OF_SERVERS == 0:
                    self.sides.renew()
                self._generations += 1
            a, b = (
                Side(commits[at].hash[:10], self.request.case, self._executor(at, server % 2)[0])
                for server, at in enumerate((base, head), server_of_base + len(ratios))
            )
            try:
                rng = random.Random(f"{key} {len(ratios)} {failed}")
                return {"log_ratio": round(take_block(a, b, rng).log_ratio, 6)}
            except BlockFailed as error:
                self._generations = 0  # the failure may have ended a fork server too
                return {"failure": str(error)}

        while len(ratios) < Rules().generation:
            row = self._row(key, measure)
            self.used_s += row["took_s"]
            if "failure" not in row:
                ratios.append(row["log_ratio"])
            elif failed:
                raise BlockFailed(row["failure"])
            else:
                failed += 1
        log_ratio = statistics.mean(ratios)
        pair = f"{commits[head].name} against {commits[base].hash[:10]}"
        self.tell(f"{pair}: {formatting.change(log_ratio)} after {self.used_s:.0f} s")
        return log_ratio
