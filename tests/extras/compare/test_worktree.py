"""Another commit, checked out beside the working tree while it is needed and removed afterwards."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.core.model.errors import UsageError
from harness.extras.compare.worktree import UnknownCommit, Worktree, commit_of, commits_between, worktree


def git(*arguments: str) -> str:
    # Whoever runs the tests may have hooks, signing and templates of their own.
    return subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false", *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
    ).stdout.strip()


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two commits, and a third state in the working tree; the current directory."""
    top = tmp_path / "repository"
    (top / "src").mkdir(parents=True)
    monkeypatch.chdir(top)
    git("init", "-b", "main")
    for content in ("first", "second"):
        (top / "src" / "mine.py").write_text(content)
        git("add", ".")
        git("commit", "-m", content)
    (top / "src" / "mine.py").write_text("third")
    return top


def worktrees() -> int:
    return git("worktree", "list").count("\n") + 1


def test_the_commit_lies_beside_the_working_tree_and_is_gone_afterwards(repository: Path) -> None:
    for ref, content in (("main", "second"), ("HEAD", "second"), ("HEAD~1", "first")):
        with worktree(ref) as tree:
            assert (tree.at / "src" / "mine.py").read_text() == content
            assert (repository / "src" / "mine.py").read_text() == "third"
            assert tree.top == repository
            assert tree.commit == git("rev-parse", ref)
            assert worktrees() == 2
            (tree.at / "left.pyc").write_text("by whoever imported it")
        assert not tree.at.parent.exists()
        assert worktrees() == 1
    assert git("status", "--porcelain") == "M src/mine.py"


def test_a_branch_whose_name_begins_with_a_dash_is_checked_out() -> None:
    git("update-ref", "refs/heads/-x", "HEAD~1")
    with worktree("-x") as tree:
        assert (tree.at / "src" / "mine.py").read_text() == "first"


def test_a_detached_head_stays_detached_and_its_changes_stay(repository: Path) -> None:
    git("checkout", "--detach", "HEAD")
    for ref, content in (("HEAD", "second"), ("main~1", "first")):
        with worktree(ref) as tree:
            assert (tree.at / "src" / "mine.py").read_text() == content
    assert git("rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    assert (repository / "src" / "mine.py").read_text() == "third"


def test_staged_and_untracked_changes_stay_as_they_are(repository: Path) -> None:
    (repository / "staged.py").write_text("staged")
    git("add", "staged.py")
    (repository / "untracked.py").write_text("untracked")
    before = git("status", "--porcelain")
    with worktree("HEAD") as tree:
        assert sorted(path.name for path in tree.at.iterdir()) == [".git", "src"]
    assert git("status", "--porcelain") == before


@pytest.fixture
def submodule(repository: Path, tmp_path: Path) -> Path:
    """A submodule with a submodule of its own, both in the repository's last commit and changed since."""
    for name, inner in (("inner", None), ("outer", "inner")):
        (tmp_path / name).mkdir()
        git("-C", str(tmp_path / name), "init", "-b", "main")
        (tmp_path / name / "layer.py").write_text("committed")
        git("-C", str(tmp_path / name), "add", ".")
        if inner:
            _add_submodule(tmp_path / name, tmp_path / inner, inner)
        git("-C", str(tmp_path / name), "commit", "-m", "a layer")
    _add_submodule(repository, tmp_path / "outer", "outer")
    git("-c", "protocol.file.allow=always", "submodule", "update", "--init", "--recursive")
    git("commit", "-m", "a submodule")
    for place in (repository / "outer", repository / "outer" / "inner"):
        (place / "layer.py").write_text("changed")
    return repository / "outer"


def _add_submodule(repository: Path, of: Path, name: str) -> None:
    git("-C", str(repository), "-c", "protocol.file.allow=always", "submodule", "add", str(of), name)


def test_submodules_hold_what_the_commit_says_of_them(submodule: Path) -> None:
    before = git("status", "--porcelain")
    with worktree("HEAD") as tree:
        assert (tree.at / "outer" / "layer.py").read_text() == "committed"
        assert (tree.at / "outer" / "inner" / "layer.py").read_text() == "committed"
    assert not tree.at.parent.exists()
    assert git("status", "--porcelain") == before
    assert (submodule / "layer.py").read_text() == "changed"


def test_a_commit_that_a_submodule_lacks_is_refused_with_what_fetches_it(submodule: Path) -> None:
    git("update-index", "--cacheinfo", f"160000,{'1' * 40},outer")
    git("commit", "-m", "a newer submodule")
    lacking = "submodule outer lacks commit 111111111111: git -C outer fetch"
    with pytest.raises(UsageError, match=lacking), worktree("HEAD"):
        pass
    assert worktrees() == 1


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_it_is_gone_after_an_exception_too(error: type[BaseException]) -> None:
    with pytest.raises(error), worktree("main") as tree:
        raise error
    assert not tree.at.parent.exists()
    assert worktrees() == 1


def test_nothing_stays_when_adding_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    added: list[Path] = []
    run = subprocess.run

    def interrupted(command: list[str], **options: Any) -> Any:
        if "add" not in command:
            return run(command, **options)
        added.append(Path(command[-2]))
        # So git leaves it where it is killed on the way.
        run([*command[:-2], "--lock", *command[-2:]], check=True, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt), worktree("main"):
        pass
    assert len(added) == 1
    assert not added[0].parent.exists()
    assert worktrees() == 1


def test_what_a_killed_command_has_left_is_swept_up_by_the_next(repository: Path, tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left, running = (tmp_path / f"harness-base-{pid}-x" / "base" for pid in (gone.pid, os.getpid()))
    for at in (left, running):
        git("worktree", "add", "--detach", str(at))
    with worktree("HEAD"):
        pass
    assert not left.parent.exists()
    assert running.exists()
    assert len(git("worktree", "list").splitlines()) == 2


def test_a_path_finds_there_what_it_found_here(repository: Path) -> None:
    (repository / "new_since").mkdir()
    search = [str(repository), str(repository / "src"), str(repository / "new_since"), "/usr/lib/python3", ""]
    with worktree("HEAD") as tree:
        there = tree.path(search)
        assert there == [str(tree.at), str(tree.at / "src"), str(tree.at / "new_since"), "/usr/lib/python3", ""]
        assert tree.own_path(search) == search


def test_its_roots_are_looked_at_last_where_nothing_pointed_into_the_repository(repository: Path) -> None:
    with worktree("HEAD") as tree:
        assert tree.path(["/usr/lib/python3"]) == ["/usr/lib/python3", str(tree.at), str(tree.at / "src")]
        assert tree.own_path(["/usr/lib/python3"]) == ["/usr/lib/python3", str(repository), str(repository / "src")]


def test_a_virtual_environment_in_the_repository_serves_both(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = str(repository / ".venv" / "lib" / "site-packages")
    monkeypatch.setattr(sys, "prefix", str(repository / ".venv"))
    with worktree("HEAD") as tree:
        assert tree.path([packages, str(repository)]) == [packages, str(tree.at), str(tree.at / "src")]


def test_a_repository_within_an_environment_is_a_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(repository.parent))
    with worktree("HEAD") as tree:
        assert tree.path([str(repository)])[0] == str(tree.at)


def test_a_path_through_a_link_is_in_the_repository_too(repository: Path) -> None:
    link = repository.parent / "link"
    link.symlink_to(repository)
    with worktree("HEAD") as tree:
        assert tree.path([str(link / "src")])[0] == str(tree.at / "src")


def test_from_below_the_top_it_is_the_same_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository / "src")
    with worktree("HEAD") as tree:
        assert tree.top == repository


def test_in_a_hook_the_index_of_the_working_tree_is_left_alone(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = repository / ".git" / "index"
    before = index.read_bytes()
    monkeypatch.setenv("GIT_DIR", ".git")
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/index")
    with worktree("HEAD~1") as tree:
        assert (tree.at / "src" / "mine.py").read_text() == "first"
    assert index.read_bytes() == before


@pytest.mark.parametrize("ref", ["absent", "--help", "-f", "HEAD:src/mine.py", "", "a b"])
def test_what_is_no_commit_is_refused_in_one_line(ref: str) -> None:
    with pytest.raises(UsageError, match="git knows no such commit") as refused, worktree(ref):
        pass
    assert str(refused.value).startswith(f"{ref}: ")
    assert "\n" not in str(refused.value)
    assert worktrees() == 1


def test_outside_a_repository_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="HEAD: there is no git repository here"), worktree("HEAD"):
        pass
    with pytest.raises(UsageError, match="absent: there is no git repository here"):
        commit_of("absent")


def test_without_git_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match="there is no git here"), worktree("HEAD"):
        pass
    with pytest.raises(UsageError, match="there is no git here"):
        commit_of("HEAD")


def test_a_commit_is_named_by_its_hash_and_subject_and_an_unknown_one_is_an_error() -> None:
    assert commit_of("main").name == f"{git('rev-parse', 'main')[:10]} (second)"
    assert commit_of("main").hash == git("rev-parse", "main")
    with pytest.raises(UnknownCommit, match="absent: git knows no such commit"):
        commit_of("absent")


def test_a_range_is_a_list_of_commits_with_the_good_one_first() -> None:
    git("commit", "-a", "-m", "third")
    assert [one.subject for one in commits_between("HEAD~2..main")] == ["first", "second", "third"]
    assert [one.hash for one in commits_between("HEAD~1..HEAD")] == [
        git("rev-parse", "HEAD~1"),
        git("rev-parse", "HEAD"),
    ]


def test_a_merged_branch_counts_as_one_commit() -> None:
    git("stash")
    git("checkout", "-b", "side", "HEAD~1")
    for name in ("a", "b"):
        git("commit", "--allow-empty", "-m", name)
    git("checkout", "main")
    git("merge", "--no-ff", "-m", "merge", "side")
    assert [one.subject for one in commits_between("HEAD~2..HEAD")] == ["first", "second", "merge"]
    with pytest.raises(UsageError, match="do not lead back to side"):
        commits_between("side..main")


@pytest.mark.parametrize(
    "span", ["main", "main..", "..main", "main...HEAD", "main..nothing", "main..HEAD~1", "main..main"]
)
def test_a_range_that_is_none_is_refused(span: str) -> None:
    with pytest.raises(UsageError):
        commits_between(span)


def test_a_layer_is_of_the_commit_or_the_commit_lacks_it_or_it_is_the_same_at_all_commits(tmp_path: Path) -> None:
    tree = Worktree(tmp_path / "top", tmp_path / "base", "1a2b3c4d5e6f")

    def is_of_it(file: Path | None) -> bool:
        return tree.holds("mine:Layer", str(file) if file is not None else None)

    assert is_of_it(tree.at / "mine.py")
    # An editable install finds a layer of the working tree, which the commit lacks.
    assert not is_of_it(tree.top / "mine.py")
    for file in (tmp_path / "elsewhere" / "mine.py", None):
        with pytest.raises(UsageError, match="not of this repository: it would be the same at all commits"):
            is_of_it(file)
    tree.at.mkdir()
    (tree.at / "mine.py").touch()
    with pytest.raises(UsageError, match="even for 1a2b3c4d5e: put the directory"):
        is_of_it(tree.top / "mine.py")
