"""A temporary checkout of another commit, from which trials import a user's layers.

And which layers a diff touches, for `compare --changed`, and which changed files several layers share.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import psutil

from harness.core.model.errors import UsageError, notify

# Directories of a repository that usually hold Python packages: the top, or `src`.
_ROOTS = ("", "src")
# Variables that git sets for its hooks. `GIT_INDEX_FILE` is the repository's own index: a checkout would overwrite it.
_OF_HOOKS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX")


_PREFIX = "harness-base-"
# The mode of a submodule's entry in a git tree.
_SUBMODULE = "160000"


@dataclass(frozen=True)
class Worktree:
    """A checkout of `commit` at `at`, from the repository whose own working tree is `top`."""

    top: Path
    at: Path
    commit: str

    def changed(self) -> list[str]:
        """Files that differ between this commit and the repository's own working tree, relative to its top.

        Uncommitted and new files count; ignored files do not.
        """
        command = ("diff", "--name-only", "--no-renames", "-z", self.commit, "--")
        tracked = _git(self.top, *command, refused="--changed")
        new = _git(self.top, "ls-files", "--others", "--exclude-standard", "--full-name", "-z", refused="--changed")
        return sorted({*f"{tracked}\0{new}".split("\0")} - {""})

    def path(self, search: Sequence[str]) -> list[str]:
        """Return `search` with every entry inside the repository moved to the worktree; other entries stay.

        The worktree's roots come last, like the current directory. They still precede packages installed in editable
        mode, because Python consults those finders after all of `sys.path`. A virtual environment inside the repository
        serves both sides, so its entries stay.
        """
        moved = [self.counterpart(Path(entry).resolve()) if entry else None for entry in search]
        entries = [str(place or entry) for place, entry in zip(moved, search, strict=True)]
        return list(dict.fromkeys([*entries, *_roots(self.at)]))

    def counterpart(self, place: Path) -> Path | None:
        """Where a path of the working tree lies in the worktree; None for a path elsewhere, or in an environment."""
        prefixes = [Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)]
        inside = [prefix for prefix in prefixes if prefix != self.top and prefix.is_relative_to(self.top)]
        if not place.is_relative_to(self.top) or any(map(place.is_relative_to, inside)):
            return None
        return self.at / place.relative_to(self.top)

    def holds(self, impl: str, file: str | None) -> bool:
        """Whether the `file` of a layer's module is of this checkout. If not, the commit lacks the layer.

        An editable install then finds the layer in the working tree. Raises UsageError for a layer from anywhere else,
        and if the commit has the layer's file, but the file of the working tree was imported.
        """
        place = Path(file).resolve() if file else None
        if place is not None and place.is_relative_to(self.at):
            return True
        there = self.counterpart(place) if place is not None else None
        if there is None:
            source = file or "a module without a file"
            raise UsageError(
                f"impl '{impl}' is from {source}, which is not of this repository: it would be the same at all commits"
            )
        if there.exists():
            raise UsageError(
                f"impl '{impl}' is from {file} even for {self.commit[:10]}: put the directory that holds its package "
                "on PYTHONPATH"
            )
        return False

    def own_path(self, search: Sequence[str]) -> list[str]:
        """Return `search` with the roots of the repository's own working tree appended."""
        return list(dict.fromkeys([*search, *_roots(self.top)]))


def _roots(tree: Path) -> list[str]:
    return [str(tree / root) for root in _ROOTS if (tree / root).is_dir()]


@contextmanager
def worktree(ref: str) -> Iterator[Worktree]:
    """Check out `ref` (a branch, a tag or a commit) in a temporary directory, and remove it at the end.

    The commit is one of the repository in the current directory. Raises UsageError outside a git repository, for an
    unknown ref, or if git fails.
    """
    top, commit = _repository(ref), commit_of(ref).hash
    _sweep_up(top)
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-") as scratch:
        at = Path(scratch).resolve() / "base"
        try:
            _git(top, "worktree", "add", "--detach", "--force", str(at), commit, refused=ref)
            _fill_submodules(top, at, commit, ref)
            yield Worktree(top.resolve(), at, commit)
        except BaseException:
            try:
                _remove(top, at)
            except UsageError as left_behind:  # the first error matters more, so this one is only printed
                notify(left_behind)
            raise
        _remove(top, at)


class OpenWorktrees(ExitStack):
    """Worktrees of the commits that were used last, `most` of them at the same time. A context manager."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._open: dict[str, tuple[ExitStack, Worktree]] = {}  # the commit used last comes last

    def at(self, commit: str) -> Worktree:
        """The worktree of a commit. Raises UsageError as `worktree` does."""
        if commit not in self._open:
            while len(self._open) >= self._most:
                self._open.pop(next(iter(self._open)))[0].close()
            stack = self.enter_context(ExitStack())
            self._open[commit] = stack, stack.enter_context(worktree(commit))
        self._open[commit] = self._open.pop(commit)
        return self._open[commit][1]


@dataclass(frozen=True)
class Commit:
    """A commit: its full hash, and the first line of its message."""

    hash: str
    subject: str

    @property
    def name(self) -> str:
        """The commit in a sentence: a short hash, and what it is about."""
        return f"{self.hash[:10]} ({self.subject})"


def _repository(what: str) -> Path:
    return Path(_git(Path.cwd(), "rev-parse", "--show-toplevel", refused=f"{what}: there is no git repository here"))


class UnknownCommit(UsageError):
    """The repository has no such commit."""


def commit_of(ref: str) -> Commit:
    """The commit that `ref` names in the repository of the current directory. Raises UnknownCommit if git knows none.

    Raises another UsageError without git, and outside a repository.
    """
    top = _repository(ref)
    # `--end-of-options`: a ref that begins with a dash must not be read as an option.
    unknown = f"{ref}: git knows no such commit (a shallow clone may lack it: fetch it, or clone with its history)"
    try:
        commit = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", refused=unknown)
    except UsageError as error:
        raise UnknownCommit(str(error)) from error
    return Commit(commit, _git(top, "log", "-1", "--format=%s", commit, refused=ref))


def place_of(commit: Commit) -> tuple[int, str]:
    """The number of the commit's first-parent ancestors, and its date in ISO 8601.

    Raises UsageError in a shallow clone, which lacks its ancestors.
    """
    top, name = _repository(commit.hash), commit.hash[:10]
    if _git(top, "rev-parse", "--is-shallow-repository", refused=name) == "true":
        raise UsageError("this clone is shallow: type 'git fetch --unshallow' (actions/checkout: fetch-depth: 0)")
    number = _git(top, "rev-list", "--count", "--first-parent", commit.hash, refused=name)
    return int(number), _git(top, "log", "-1", "--format=%cI", commit.hash, refused=name)


def has_uncommitted_changes(untracked: str = "normal") -> bool:
    """Whether a file of the repository in the current directory differs from its commit.

    A new file counts, unless it is ignored or `untracked` is `no`.
    """
    files = f"--untracked-files={untracked}"
    return bool(_git(_repository("HEAD"), "status", "--porcelain", files, refused="git status"))


def unmeasured_changes(commits: Sequence[Commit]) -> list[str]:
    """A sentence that uncommitted changes are not measured, if HEAD is one of the commits and there are any."""
    if commit_of("HEAD") in commits and has_uncommitted_changes("no"):
        return ["the working tree has uncommitted changes: they are not measured"]
    return []


def commits_between(span: str) -> list[Commit]:
    """The commits of `GOOD..BAD` in the repository of the current directory, the oldest first; GOOD itself is first.

    At a merge, only the first parent is followed: a merged branch counts as one commit. Raises UsageError outside a git
    repository, for another form, for an unknown commit, and if the first parents of BAD do not lead to GOOD.
    """
    good, dots, bad = span.partition("..")
    if not (good and dots and bad) or bad.startswith("."):
        raise UsageError(f"'{span}' is not of the form GOOD..BAD, such as v1.0..main")
    top = _repository(span)
    first, last = commit_of(good), commit_of(bad)
    log = _git(top, "log", "--first-parent", "--format=%H%x00%s", f"{first.hash}..{last.hash}", refused=span)
    newest_first = [line.split("\0", 1) for line in log.splitlines()]
    before = _git(top, "rev-list", "--first-parent", last.hash, refused=span).splitlines()
    if not newest_first or first.hash not in before:
        raise UsageError(f"{span}: the first parents of {bad} do not lead back to {good}: name an earlier commit first")
    return [first, *(Commit(*line) for line in reversed(newest_first))]


def _fill_submodules(top: Path, at: Path, commit: str, ref: str) -> None:
    """Write the submodules of `commit` into `at`, recursively. git leaves their directories empty in a new worktree.

    A submodule that is missing from the user's own working tree stays empty. Raises UsageError if a submodule lacks the
    required commit.
    """
    for entry in filter(None, _git(top, "ls-tree", "-r", "-z", commit, refused=ref).split("\0")):
        details, _, name = entry.partition("\t")
        mode, _, pinned = details.split()
        submodule = top / name
        if mode != _SUBMODULE or not (submodule / ".git").exists():
            continue
        lacking = f"{ref}: submodule {name} lacks commit {pinned[:12]}: git -C {shlex.quote(name)} fetch"
        _git(submodule, "rev-parse", "--verify", "--quiet", f"{pinned}^{{commit}}", refused=lacking)
        with tempfile.TemporaryDirectory(prefix=_PREFIX) as scratch:
            # With a temporary index, the submodule's own index and working tree stay unchanged.
            index = {"GIT_INDEX_FILE": str(Path(scratch) / "index")}
            _git(submodule, "read-tree", pinned, refused=lacking, **index)
            _git(submodule, "checkout-index", "--all", f"--prefix={at / name}/", refused=lacking, **index)
        _fill_submodules(submodule, at / name, pinned, ref)


def _sweep_up(top: Path) -> None:
    """Remove the worktrees of killed commands.

    A worktree's directory is named after the process that created it; worktrees of live processes stay.
    """
    for line in _git(top, "worktree", "list", "--porcelain", refused="git worktree list").splitlines():
        at = Path(line.removeprefix("worktree "))
        number = at.parent.name.removeprefix(_PREFIX).partition("-")[0]
        ours = line.startswith("worktree ") and at.parent.name.startswith(_PREFIX) and number.isdigit()
        if ours and not psutil.pid_exists(int(number)):
            _remove(top, at)
            shutil.rmtree(at.parent, ignore_errors=True)


def _remove(top: Path, at: Path) -> None:
    """Remove the worktree. `--force` is given twice because an interrupted `git worktree add` leaves it locked."""
    refused = f"{at} stays behind"
    if f"worktree {at}" in _git(top, "worktree", "list", "--porcelain", refused=refused).splitlines():
        _git(top, "worktree", "remove", "--force", "--force", str(at), refused=refused)


def _git(directory: Path, *arguments: str, refused: str, **environment: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    usual = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=usual | environment)
    except FileNotFoundError as error:
        raise UsageError(f"{refused}: there is no git here") from error
    if done.returncode:
        message = " ".join(done.stderr.split())[:300]
        raise UsageError(f"{refused}: {message}" if message else refused)
    return done.stdout.strip()


# The two values of `--changed`. With `ALL`, every layer is taken as soon as shared code has changed.
TOUCHED, ALL = "touched", "all"
# Properties of a comparison, each a list of names.
LEFT_OUT, SHARED = "left out", "changed shared files"
# Files that no import names, and that may change every layer.
_PROJECT_FILES = (
    *("pyproject.toml", "setup.py", "setup.cfg", "*constraints*.txt", "*requirements*.txt", "*.lock"),
    *("environment*.y*ml", "*.c", "*.cc", "*.cpp", "*.cu", "*.h", "*.hpp", "*.cuh", "*.pyx", "*.so", "CMakeLists.txt"),
)


@dataclass(frozen=True)
class LayerFiles:
    """Files of a layer: the one that defines its class, and all files that its module imports. Relative to the top."""

    defining: frozenset[str]
    imported: frozenset[str]

    @classmethod
    def of(cls, described: Iterable[tuple[Mapping[str, Any], Path]]) -> "LayerFiles":
        """The files in the descriptions of both sides, each with the top of its checkout."""
        defining, imported = set[str](), set[str]()
        for values, top in described:
            defining.update(_below(top, filter(None, [values["file"]])))
            imported.update(_below(top, values.get("imports") or []))
        return cls(frozenset(defining), frozenset(defining | imported))


def _below(top: Path, files: Iterable[str]) -> Iterator[str]:
    for file in files:
        with suppress(ValueError):  # a file elsewhere
            yield Path(file).resolve().relative_to(top.resolve()).as_posix()


def touched_layers(
    layers: Mapping[str, LayerFiles], changed: Collection[str], mode: str
) -> tuple[list[str], dict[str, str]]:
    """The layers whose files are among the `changed` ones, and properties: the other layers, and the shared files.

    A changed file touches the layers that it defines. If only one layer imports it, it touches that layer too. Any
    other file that layers import is shared, as are files that build or configure the whole project.
    """
    touched, shared = set[str](), []
    for file in sorted(changed):
        importing = {name for name, files in layers.items() if file in files.imported}
        defined = {name for name in importing if file in layers[name].defining}
        touched |= importing if len(importing) == 1 else defined
        is_of_all = any(fnmatch(Path(file).name, pattern) for pattern in _PROJECT_FILES)
        # Layers that the file itself defines are touched already. Only others may be affected without being measured.
        if is_of_all or (len(importing) > 1 and importing != defined):
            shared.append(file)
    if mode == ALL and shared:
        touched = set(layers)
    lists = {LEFT_OUT: [name for name in layers if name not in touched], SHARED: shared}
    properties = {name: ", ".join(names) for name, names in lists.items() if names}
    return [name for name in layers if name in touched], properties


def choice_sentences(properties: Mapping[str, str], ref: str | None, mode: str | None) -> Iterator[str]:
    """Sentences about what `--changed` left out, and about shared code."""
    if LEFT_OUT in properties:
        yield f"Left out, because the changes since {ref} touch none of their own files: {properties[LEFT_OUT]}."
    if SHARED in properties:
        what = "every layer is measured" if mode == ALL else "any layer may be affected, and --changed=all measures all"
        yield f"Shared code changed ({properties[SHARED]}): {what}."
