"""Another commit of the repository in the current directory, checked out beside it for as long as it is needed."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.errors import UsageError

# Where Python packages lie in a repository: at its top, or below.
_ROOTS = ("", "src")
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX")


_PREFIX = "harness-base-"
# The mode of a submodule's entry in a tree of git.
_SUBMODULE = "160000"


@dataclass(frozen=True)
class Worktree:
    """`at` holds `commit` of the repository whose own working tree is `top`."""

    top: Path
    at: Path
    commit: str

    def path(self, search: Sequence[str]) -> list[str]:
        """A `sys.path` that finds in the worktree what `search` finds in the repository, and all else where it was.

        The worktree's roots come last, as the current directory does, but before what finds packages that are installed
        in editable mode: that is asked after all of `sys.path`. A virtual environment that lies in the repository is no
        part of it, and serves both.
        """
        return list(dict.fromkeys([*(self._moved(entry) for entry in search), *_roots(self.at)]))

    def _moved(self, entry: str) -> str:
        place = Path(entry).resolve()
        if not entry or not place.is_relative_to(self.top) or any(map(place.is_relative_to, self._environments())):
            return entry
        return str(self.at / place.relative_to(self.top))

    def _environments(self) -> list[Path]:
        prefixes = [Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)]
        return [prefix for prefix in prefixes if prefix != self.top and prefix.is_relative_to(self.top)]

    def own_path(self, search: Sequence[str]) -> list[str]:
        """The like for the repository's own working tree."""
        return list(dict.fromkeys([*search, *_roots(self.top)]))


def _roots(tree: Path) -> list[str]:
    return [str(tree / root) for root in _ROOTS if (tree / root).is_dir()]


@contextmanager
def worktree(ref: str) -> Iterator[Worktree]:
    """`ref` (a branch, a tag, a commit) checked out in a directory of its own, and removed at the end.

    Raises UsageError outside a git repository, for a ref that it does not know, and where git refuses.
    """
    top = Path(_git(Path.cwd(), "rev-parse", "--show-toplevel", refused="ref= needs a git repository"))
    # With the dash a ref is never taken for an option.
    unknown = f"ref={ref}: git knows no such commit (a shallow clone may lack it: fetch it, or clone with its history)"
    commit = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", refused=unknown)
    _sweep_up(top)
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-") as scratch:
        at = Path(scratch).resolve() / "base"
        try:
            _git(top, "worktree", "add", "--detach", "--force", str(at), commit, refused=f"ref={ref}")
            _fill_submodules(top, at, commit, ref)
            yield Worktree(top.resolve(), at, commit)
        except BaseException:
            try:
                _remove(top, at)
            except UsageError as left_behind:  # what has gone wrong before is what matters
                print(f"harness: {left_behind}", file=sys.stderr)
            raise
        _remove(top, at)


def _fill_submodules(top: Path, at: Path, commit: str, ref: str) -> None:
    """Write the submodules of `commit`, and theirs, into `at`. git leaves their directories empty in a new worktree.

    A submodule that the user's own working tree lacks stays empty. Raises UsageError where its commit is not there.
    """
    for entry in filter(None, _git(top, "ls-tree", "-r", "-z", commit, refused=f"ref={ref}").split("\0")):
        details, _, name = entry.partition("\t")
        mode, _, pinned = details.split()
        submodule = top / name
        if mode != _SUBMODULE or not (submodule / ".git").exists():
            continue
        lacking = f"ref={ref}: submodule {name} lacks commit {pinned[:12]}: git -C {shlex.quote(name)} fetch"
        _git(submodule, "rev-parse", "--verify", "--quiet", f"{pinned}^{{commit}}", refused=lacking)
        with tempfile.TemporaryDirectory(prefix=_PREFIX) as scratch:
            # An index of its own: the submodule's own index and working tree stay as they are.
            index = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
            _git(submodule, "read-tree", pinned, refused=lacking, **index)
            _git(submodule, "checkout-index", "--all", f"--prefix={at / name}/", refused=lacking, **index)
        _fill_submodules(submodule, at / name, pinned, ref)


def _sweep_up(top: Path) -> None:
    """Remove what was left by comparisons that were killed: the processes that their directories are named for."""
    for line in _git(top, "worktree", "list", "--porcelain", refused="ref=").splitlines():
        at = Path(line.removeprefix("worktree "))
        number = at.parent.name.removeprefix(_PREFIX).partition("-")[0]
        ours = line.startswith("worktree ") and at.parent.name.startswith(_PREFIX) and number.isdigit()
        if ours and not psutil.pid_exists(int(number)):
            _remove(top, at)
            shutil.rmtree(at.parent, ignore_errors=True)


def _remove(top: Path, at: Path) -> None:
    """Twice forced: where adding it was interrupted, git has left it locked."""
    refused = f"{at} stays behind"
    if f"worktree {at}" in _git(top, "worktree", "list", "--porcelain", refused=refused).splitlines():
        _git(top, "worktree", "remove", "--force", "--force", str(at), refused=refused)


def _environment() -> dict[str, str]:
    """Without what git sets for its hooks, to its own index among others: a checkout would write that."""
    return {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}


def _git(directory: Path, *arguments: str, refused: str, **environment: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=_environment() | environment)
    except FileNotFoundError as error:
        raise UsageError(f"{refused}: there is no git here") from error
    if done.returncode:
        said = " ".join(done.stderr.split())[:300]
        raise UsageError(f"{refused}: {said}" if said else refused)
    return done.stdout.strip()
