"""The file of `history`: JSON lines, which are only ever appended. The first line says what is measured.

Another line holds a commit's facts and ratios, two commits directly compared, or a blessing.
"""

import fcntl
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, Field, FiniteFloat, model_validator

from harness.core.model import file_io
from harness.core.model.errors import UsageError, usage_error_about
from harness.core.model.file_validation import Count, Damaged, OpenModel, checked, validator
from harness.core.results.columns import COUNTS
from harness.extras import mean_interval
from harness.extras.compare.worktree import Commit
from harness.study.check.baseline import parse_case, parse_finding_id

from .change_position import Step

SCHEMA = 1
# Why a layer has no cases at a commit, if nothing is wrong with it.
ABSENT = "this commit does not have the layer"
# Facts whose changes from commit to commit are reported, and their names in sentences.
FACT_NAMES = {
    "flops": "FLOPs",
    "ops": "Operations",
    "depth": "Sequential depth",
    "peak_bytes": "Peak memory in bytes",
    "backend": "Backends",
}
_Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{40,64}$")]
_Fact = Count | str | None
# Far beyond any ratio of times, and far below one that overflows.
_LogRatio = Annotated[FiniteFloat, Field(ge=-50, le=50)]
_Value = TypeVar("_Value")


def _key_of(parse: Callable[[str], Any]) -> AfterValidator:
    """The validator of a text that `parse` can read, and that stays a text."""

    def validate(key: str) -> str:
        parse(key)
        return key

    return AfterValidator(validator(validate))


_CaseKey = Annotated[str, _key_of(parse_case)]
_ModelKey = Annotated[str, _key_of(parse_finding_id)]


class Header(OpenModel):
    """What the file is about. `settings` are the options that choose the cases; `anchor` is the commit to time against.

    The anchor is fixed, so all ratios of the file have the same base.
    """

    schema_: Annotated[int, Field(alias="schema")]
    harness: str
    anchor: _Hash
    settings: list[str]


class Ratio(OpenModel):
    """A time over another one, as a log ratio with its 95 % interval. `generations` are the means that it comes from.

    Each generation has its own processes. If a layer cannot be timed, `reason` says why, and nothing else is known.
    """

    log_ratio: _LogRatio | None = None
    lo: FiniteFloat | None = None
    hi: FiniteFloat | None = None
    generations: list[_LogRatio] = Field(default_factory=list)
    reason: str | None = None

    @model_validator(mode="after")
    def _check_interval(self) -> Self:
        stated = [end for end in (self.log_ratio, self.lo, self.hi) if end is not None]
        computed = mean_interval(self.generations) if self.is_known else ()
        # The file rounds each of them to six digits.
        if len(stated) != len(computed) or math.dist(stated, computed) > 1e-4:
            raise ValueError("the ratio and its interval do not follow from the generations")
        return self

    @property
    def is_known(self) -> bool:
        """Whether there are generations enough for an interval."""
        return len(self.generations) >= 2

    @property
    def text(self) -> str:
        """The change of the time with its interval, in per cent; or why it is not known."""
        if self.log_ratio is None or self.lo is None or self.hi is None:
            return f"not measured: {self.reason}"
        return Step(self.log_ratio, self.lo, self.hi).text


def _check_counts(facts: dict[str, _Fact]) -> dict[str, _Fact]:
    for name in COUNTS:
        if isinstance(facts.get(name), str):
            raise ValueError(f"{name} is a text, not a number")
    return facts


class MeasuredCase(OpenModel):
    """The facts of a case, and the ratio of its time to the anchor's. Without facts, `reason` says why."""

    facts: Annotated[dict[str, _Fact], AfterValidator(_check_counts)] = Field(default_factory=dict)
    reason: str | None = None
    time: Ratio | None = None


class CostModel(OpenModel):
    """A cost model of exact counts, and its scaling exponent at the largest length; None if n did not vary.

    `own_exponents` are along the layer's own axes that varied, by letter.
    """

    law: str
    exponent_n: FiniteFloat | None
    own_exponents: dict[str, FiniteFloat] = Field(default_factory=dict)

    @property
    def exponents(self) -> dict[str, float]:
        """The exponents along n and the layer's own axes."""
        return ({} if self.exponent_n is None else {"n": self.exponent_n}) | self.own_exponents


class CommitLine(OpenModel):
    """A commit, measured `at` these seconds since 1970, or why it could not be measured (`reason`).

    `number` counts its first-parent ancestors, which orders the commits. `cases` and `models` have their keys.
    `layers` says of layers that this commit lacks why they were not found.
    """

    commit: _Hash
    number: Count
    date: str
    subject: str
    at: FiniteFloat
    machine: dict[str, str]
    versions: dict[str, str]
    reason: str | None = None
    layers: dict[str, str] = Field(default_factory=dict)
    cases: dict[_CaseKey, MeasuredCase] = Field(default_factory=dict)
    models: dict[_ModelKey, CostModel] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """The commit in a sentence."""
        return Commit(self.commit, self.subject).name

    @property
    def place(self) -> tuple[int, str]:
        """What orders the commits."""
        return self.number, self.date

    @property
    def measured(self) -> int:
        """The number of its cases that have facts."""
        return sum(case.reason is None for case in self.cases.values())

    @property
    def timed(self) -> int:
        """The number of its cases whose time is known."""
        return sum(case.time is not None and case.time.is_known for case in self.cases.values())


class DirectComparison(OpenModel):
    """Two commits directly compared in one case: the time of `after` over that of `before`."""

    before: _Hash
    after: _Hash
    case: str
    at: FiniteFloat
    machine: dict[str, str]
    versions: dict[str, str]
    time: Ratio


class Blessing(OpenModel):
    """The changes of the commit `blessed` are intended, for this reason."""

    blessed: _Hash
    reason: str
    at: FiniteFloat


_KINDS = {"commit": CommitLine, "before": DirectComparison, "blessed": Blessing}


@dataclass
class History:
    """The content of a file. `commits` are in the order of the history, each of them once."""

    path: Path
    header: Header
    commits: list[CommitLine] = field(default_factory=list)
    direct: dict[tuple[str, str, str], Ratio] = field(default_factory=dict)  # by before, after and case
    blessed: dict[str, str] = field(default_factory=dict)  # reason by commit
    notices: list[str] = field(default_factory=list)

    def add(self, line: OpenModel) -> None:
        """Add a line. Of several lines about a commit, the first one counts; of other lines, the last one."""
        if isinstance(line, CommitLine):
            if any(commit.commit == line.commit for commit in self.commits):
                self.notices.append(f"{self.path}: {line.commit[:10]} has several lines; the first one counts")
                return
            self.commits.append(line)
            self.commits.sort(key=lambda commit: commit.place)
        elif isinstance(line, DirectComparison):
            self.direct[line.before, line.after, line.case] = line.time
        elif isinstance(line, Blessing):
            self.blessed[line.blessed] = line.reason

    def cases(self) -> dict[str, list[MeasuredCase | None]]:
        """What each commit has of every case that any commit has."""
        return _by_key([commit.cases for commit in self.commits])

    def models(self) -> dict[str, list[CostModel | None]]:
        """What each commit has of every cost model that any commit has."""
        return _by_key([commit.models for commit in self.commits])

    def find(self, ref: str) -> CommitLine | None:
        """The commit that a full hash or its beginning names; None without one. Raises UsageError for several."""
        matching = [commit for commit in self.commits if len(ref) >= 4 and commit.commit.startswith(ref.lower())]
        if len(matching) > 1:
            raise UsageError(f"{ref} is the beginning of {len(matching)} commits in {self.path}: give more of the hash")
        return matching[0] if matching else None


def _by_key(of_commits: Sequence[Mapping[str, _Value]]) -> dict[str, list[_Value | None]]:
    """What each commit has of every key that any commit has."""
    keys = dict.fromkeys(chain.from_iterable(of_commits))
    return {key: [values.get(key) for values in of_commits] for key in keys}


def read_history(path: Path) -> History:
    """The history in the file. Raises UsageError, with a message of one line, for any other content.

    An unfinished last line, which a killed writer left, is left out.
    """
    with usage_error_about(path):
        if not path.exists():
            raise UsageError(f"{path} does not exist: 'python -m harness history add {path} …' makes it")
        return _history(path, file_io.read_bytes(path))


def _history(path: Path, content: bytes) -> History:
    whole, torn = _complete(content)
    lines = whole.split(b"\n")[:-1]
    if not lines:
        raise UsageError(f"{path} is empty, or its first line is cut off: remove it, and begin with 'history add'")
    first = _parsed(path, 1, lines[0])
    schema = first.get("schema")
    if not {"schema", "anchor", "settings"} <= first.keys():
        raise UsageError(f"{path} is not a history: its first line is another one than `history add` writes")
    if schema != SCHEMA:
        raise UsageError(
            f"{path}: its schema is {schema!r}, this harness reads {SCHEMA}: use the harness that wrote it"
        )
    history = History(path, _checked(path, 1, Header, first))
    for number, line in enumerate(lines[1:], start=2):
        parsed = _parsed(path, number, line)
        kind = next((model for key, model in _KINDS.items() if key in parsed), None)
        if kind is None:
            raise UsageError(f"{path}: line {number} is of no kind that this harness knows: restore it from git")
        history.add(_checked(path, number, kind, parsed))
    if torn:
        history.notices.append(f"{path}: the unfinished last line of a killed command was left out")
    return history


def _complete(content: bytes) -> tuple[bytes, bytes]:
    """The complete lines, and the rest.

    A last line that is complete JSON without a newline counts: editors remove the newline.
    """
    end = content.rfind(b"\n") + 1
    unfinished = content[end:]
    if unfinished.startswith(b"{") and unfinished.rstrip().endswith(b"}"):
        with suppress(ValueError, RecursionError):
            json.loads(unfinished)
            return content + b"\n", b""
    return content[:end], unfinished


def _parsed(path: Path, number: int, line: bytes) -> dict[str, Any]:
    if line.startswith((b"<<<<<<<", b"=======", b">>>>>>>")):
        raise UsageError(f"{path}: line {number} is a conflict of git: remove its marks, keep all others")
    with suppress(ValueError, RecursionError):
        parsed = json.loads(line)
        if isinstance(parsed, dict):
            return parsed
    what = "is not a history" if number == 1 else "is damaged"
    raise UsageError(f"{path} {what}: line {number} is not a JSON object; restore it from git, or name another file")


def _checked(path: Path, number: int, kind: type[Any], parsed: Mapping[str, Any]) -> Any:
    try:
        return checked(kind, parsed)
    except Damaged as damage:
        raise UsageError(f"{path}: line {number} cannot be read: {damage}") from damage


@dataclass(frozen=True)
class Writer:
    """Appends lines to the file of `history`, each at once and whole."""

    _file: int
    history: History

    def append(self, line: OpenModel) -> None:
        """Append a line to the file, and add it to the history."""
        _append(self._file, line)
        self.history.add(line)


def _append(file: int, line: OpenModel) -> None:
    content = line.model_dump(by_alias=True, exclude_defaults=True)
    left = (json.dumps(content, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8", errors="replace")
    while left:
        left = left[os.write(file, left) :]
    os.fsync(file)


@contextmanager
def open_history(path: Path, header: Header | None = None) -> Iterator[Writer]:
    """Open the file to append to it. A file that is new, or empty, begins with `header`, if given.

    Removes what a killed writer left of its last line. A new file that has got no other line is removed at the end.
    Raises UsageError if another process writes to the file, and as `read_history` does.
    """
    if header is None and not path.exists():
        read_history(path)  # which says how to make it
    with usage_error_about(path):
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if header else 0), 0o666)
    begun = 0
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{path}: another process writes to it: wait until it has ended") from error
        if header is not None and not os.fstat(file).st_size:
            _append(file, header)
            begun = os.fstat(file).st_size
        content = file_io.read_bytes(path)
        history = _history(path, content)
        whole, torn = _complete(content)
        if torn:
            os.ftruncate(file, len(whole))
        elif whole != content:
            os.write(file, b"\n")
        yield Writer(file, history)
    finally:
        if begun and os.fstat(file).st_size == begun:
            path.unlink(missing_ok=True)
        os.close(file)
