"""A sweep's command carried out in this process, in a directory of its own, and what is asked of all: `violations`."""

import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from cli.pretended import PretendedRunner, pretending

from harness.cli.commands import main

# What lies in the directory that commands are carried out in; each may be named as `out`.
NAMES = ("taken", "run", "odd", "loop", "'broken run'", "taken/run", "odd/run")
RUN_OVERRIDES = [
    "impl=rnn.torch,attention.fused",
    "seq_len=32,64",
    "d_model=16",
    "num_heads=2",
    "dtype=float32,float64",
]
_SHAPE = b"# @package _global_\nseq_len: 11\nd_model: 8\nnum_heads: 2\n"
_CONF = {"mine": _SHAPE}
BROKEN_SHAPES = {
    "broken": b"a: [",
    "typo": b"# @package _global_\nseqlen: 3\n",
    "cyclic": b"# @package _global_\nseq_len: ${d_model}\nd_model: ${seq_len}\n",
    "bytes": b"# @package _global_\nseq_len: \xff\xfe\n",
    "nul": _SHAPE + b'out: "a\\0b"\n',
    "defaults": b"defaults: [absent]\n",
}


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit status, or the exception that escaped it, what it said, and which paths changed."""

    status: int | None
    escaped: BaseException | None
    err: str
    out: Path | None
    changed: list[Path]


class Scratch:
    """A directory with a run, what looks like one and what does not: as good as new for each command.

    A context manager. Commands are carried out in `here`; what they might touch beside it lies there too.
    """

    def __init__(self) -> None:
        self._held = tempfile.TemporaryDirectory(prefix="harness-scratch-")
        self._template, self._root = Path(self._held.name, "template"), Path(self._held.name, "root")
        self.here = self._root / "here"

    def __enter__(self) -> "Scratch":
        _lay_out(self.here)
        self._before = _listing(self._root)
        begun = self.carried_out([*RUN_OVERRIDES, "out=run"], again=False)
        assert begun.status == 3, begun
        for copy in ("elsewhere", "broken run", "run begun"):
            shutil.copytree(self.here / "run", self.here / copy)
        (self.here / "elsewhere" / "machine.json").write_text('{"cpu": {"model": "another"}}')
        (self.here / "broken run" / "config.yaml").write_text("a: [")
        for rows in (self.here / "run begun" / "rows").iterdir():
            rows.write_bytes(rows.read_bytes()[:-40])
        self._before = _listing(self._root)
        shutil.copytree(self._root, self._template, symlinks=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._held.cleanup()

    def carried_out(self, arguments: Sequence[str], again: bool = True) -> Outcome:
        """`python -m harness sweep …` in `here`; what it changed is as before afterwards, if others come `again`."""
        PretendedRunner.out = None
        status, escaped = None, None
        # As Python sets them up for a process: what cannot be encoded is an error on one, and escaped on the other.
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
        with pretending(), _within(self.here), redirect_stdout(out), redirect_stderr(err):
            try:
                status = main(["sweep", *arguments])
            except SystemExit as ended:  # --help
                status = ended.code if isinstance(ended.code, int) else 1
            except BaseException as error:
                escaped = error
        err.flush()
        after = _listing(self._root)
        both = self._before.keys() | after.keys()
        changed = sorted(path for path in both if self._before.get(path) != after.get(path))
        if again and changed:
            shutil.rmtree(self._root)
            shutil.copytree(self._template, self._root, symlinks=True)
        said = err.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]
        where = PretendedRunner.out
        return Outcome(status, escaped, said, None if where is None else self.here / where, changed)


def _lay_out(here: Path) -> None:
    (here / "odd").mkdir(parents=True)
    (here.parent / "home").mkdir()
    (here / "odd" / "thing").write_text("mine")
    (here / "taken").write_text("mine")
    (here / "loop").symlink_to("loop")
    for directory, files in {"conf": _CONF, "broken conf": BROKEN_SHAPES}.items():
        (here / directory / "shape").mkdir(parents=True)
        for shape, text in files.items():
            (here / directory / "shape" / f"{shape}.yaml").write_bytes(text)


def violations(outcome: Outcome) -> list[str]:
    """What is wrong with it: another exit status, a refusal of more lines than one, an exception, a stray file."""
    if outcome.escaped is not None:
        return [f"{type(outcome.escaped).__name__} escaped: {outcome.escaped}"]
    found = []
    if outcome.status not in (0, 2, 3):
        found.append(f"exit status {outcome.status}")
    if outcome.status == 2 and not (outcome.err.startswith("harness: ") and outcome.err.count("\n") == 1):
        found.append(f"not one line of the harness: {outcome.err!r}")
    strays = [path for path in outcome.changed if outcome.status == 2 or not _may_change(path, outcome.out)]
    return [*found, *(f"changed: {path}" for path in strays)]


def _may_change(path: Path, out: Path | None) -> bool:
    """Whether it is `out`, in it or on the way to it; where an old run was set aside; or the link to the latest."""
    if out is None:
        return False
    out = Path(os.path.normpath(out))
    beside = path.relative_to(out.parent).parts[:1] if path.is_relative_to(out.parent) else ()
    latest = beside == ("latest",) and out.parent.name == "results"
    aside = bool(beside) and beside[0].startswith(f"{out.name}.before-")
    return path.is_relative_to(out) or out.is_relative_to(path) or latest or aside


@contextmanager
def _within(here: Path) -> Iterator[None]:
    """In that directory, and at home beside it."""
    came_from = Path.cwd()
    with patch.object(sys, "path", list(sys.path)), patch.dict(os.environ, HOME=str(here.parent / "home")):
        os.chdir(here)
        try:
            yield
        finally:
            os.chdir(came_from)


def _listing(root: Path) -> dict[Path, Any]:
    """What lies below: of each file its bytes."""
    found: dict[Path, Any] = {}
    for directory, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(directory, name)
            found[path] = os.readlink(path) if path.is_symlink() else path.is_dir() or path.read_bytes()
    return found
