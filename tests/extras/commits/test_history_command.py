"""`history` as it is used, in small repositories. What counts as a change is tested in `test_history_changes.py`."""

import json
import subprocess
from pathlib import Path

import pytest
from extras.commits import histories
from extras.compare.repositories import LAYER, git, worktrees

from harness.cli.commands import main
from harness.extras.commits import history
from harness.extras.commits.history_file import Header, Ratio, Writer, open_history, read_history
from harness.extras.compare import interleaved
from tests.extras.commits.test_bisect_command import commit, repository  # noqa: F401  (a fixture)

pytestmark = pytest.mark.usefixtures("forked_servers")
TINY = [
    "impl=bisected_layer:Layer",
    "seq_len=16,32,64",
    "d_model=16",
    "num_heads=2",
    "threads=1",
    "memory_limit=512MiB",
]
FILE = "history.jsonl"


@pytest.fixture
def few_short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time little, and always with the first fork servers. A layer of ten times the work is as plain."""
    monkeypatch.setattr(interleaved, "TURN_S", 0.001)
    monkeypatch.setattr(interleaved, "BLOCK_S", 0.016)
    monkeypatch.setattr(history, "renew_servers", lambda executors: None)
    monkeypatch.setattr(history, "_DIRECT", 4)


def layers(*products: int) -> None:
    """One commit for each number of products of the layer. 0 is a layer that cannot be imported."""
    for number, times in enumerate(products):
        broken = "import not_installed\n" if not times else ""
        commit(broken + LAYER.format(products=times or 4), f"commit {number}")


@pytest.mark.slow
def test_facts_of_commits_are_added_once_and_a_change_is_blessed(capsys: pytest.CaptureFixture) -> None:
    layers(4, 0, 6)
    assert main(["history", "add", FILE, "HEAD~2..HEAD", *TINY, "--exact"]) == 3
    out, err = capsys.readouterr()
    assert "facts of 3 of 3 cases" in out, err
    found = read_history(Path(FILE))
    assert [bool(one.layers) for one in found.commits] == [False, True, False]
    assert found.header.anchor == found.commits[0].commit
    (model,) = (one for key, one in found.commits[0].models.items() if key.endswith("of=flops"))
    assert model.exponent_n is not None
    before = Path(FILE).read_text()
    assert main(["history", "add", FILE, "HEAD~2..HEAD", "--exact"]) == 0
    assert capsys.readouterr().out.count("skipped, it has a line already") == 3
    assert Path(FILE).read_text() == before
    assert main(["history", "page", FILE]) == 1
    assert "(commit 2)" in capsys.readouterr().out
    assert "or at one of 1 commit before it" in Path("history.html").read_text()
    assert main(["history", "bless", FILE, "HEAD", "reason=two more products"]) == 0
    assert main(["history", "page", FILE]) == 0
    assert worktrees() == 1


@pytest.mark.slow
@pytest.mark.usefixtures("few_short_blocks")
def test_a_time_is_a_ratio_to_the_anchor_and_a_candidate_is_confirmed(capsys: pytest.CaptureFixture) -> None:
    layers(4, 4, 40)
    sizes = [TINY[0], "seq_len=64", *TINY[2:]]
    assert main(["history", "add", FILE, "HEAD~2..HEAD", *sizes, "minutes=0.01"]) == 0, capsys.readouterr().err
    assert main(["history", "page", FILE, "threshold=0.5"]) == 1  # its FLOPs
    assert "1 candidate, not confirmed" in capsys.readouterr().out
    assert main(["history", "page", FILE, "threshold=0.5", "--confirm"]) == 1
    assert "1 confirmed" in capsys.readouterr().out
    held = [json.loads(line) for line in Path(FILE).read_text().splitlines()]
    assert sum("before" in line for line in held) == 1


@pytest.mark.slow
def test_an_interrupted_command_keeps_its_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    layers(4, 5)
    measured, taken = history._measured, []

    def interrupted(*arguments: object) -> object:
        if taken:
            raise KeyboardInterrupt
        taken.append(arguments)
        return measured(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(history, "_measured", interrupted)
        assert main(["history", "add", FILE, "HEAD~1..HEAD", *TINY, "--exact"]) == 130
    assert "repeat the command" in capsys.readouterr().err
    assert len(read_history(Path(FILE)).commits) == 1
    assert main(["history", "add", FILE, "HEAD~1..HEAD", "--exact"]) == 0
    assert len(read_history(Path(FILE)).commits) == 2


@pytest.mark.slow
def test_a_layer_of_another_place_is_an_error(capsys: pytest.CaptureFixture) -> None:
    layers(4)
    command = ["history", "add", FILE, "impl=torch.nn:Linear", *TINY[1:], "--exact"]
    assert main(command) == 2
    assert "is not of this repository" in capsys.readouterr().err
    assert not Path(FILE).exists()


def begun(settings: list[str] = TINY) -> None:
    """A file whose anchor is HEAD, with a line about a commit of elsewhere."""
    layers(4)
    head = git("rev-parse", "HEAD").strip()
    header = {"schema": 1, "harness": "0.1", "anchor": head, "settings": settings}
    with open_history(Path(FILE), Header.model_validate(header)) as writer:
        writer.append(histories.commit(90))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["add", FILE, "seq_len=128"], "was begun with impl=bisected_layer:Layer"),
        (["add", FILE, "anchor=HEAD"], "has the anchor"),
        (["add", FILE, "nowhere"], "nowhere: git knows no such commit"),
        (["add", FILE, "--confirm"], "history add has no --confirm"),
        (["add", "new.jsonl"], "name the layers"),
        (["add", "new.jsonl", "impl=./here.py:Layer", *TINY[1:]], "is one file, whatever the commit"),
        (["add", "new.jsonl", *TINY, "out=x"], "is given twice|has no --out"),
        (["page", "absent.jsonl"], "does not exist"),
        (["page", FILE, "-o", FILE], "is the history itself"),
        (["page", FILE, "--exact"], "history page has no --exact"),
        (["bless", FILE, "HEAD"], "give one commit and why"),
        (["bless", FILE, "HEAD", "reason=x"], "has no line about HEAD"),
        (["page", "bisected_layer.py"], "is not a history"),
    ],
)
def test_a_mistake_is_said_in_one_line(arguments: list[str], says: str, capsys: pytest.CaptureFixture) -> None:
    begun()
    layers(5)
    before = Path(FILE).read_text()
    assert main(["history", *arguments]) == 2
    err = capsys.readouterr().err
    assert any(one in err for one in says.split("|")), err
    assert err.count("\n") == 1
    assert Path(FILE).read_text() == before
    assert not Path("new.jsonl").exists()


def test_a_shallow_clone_says_what_to_type(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    layers(4, 5, 6)
    subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{Path.cwd()}", "shallow"], check=True)
    monkeypatch.chdir("shallow")
    assert main(["history", "add", FILE, *TINY, "--exact"]) == 2
    assert "git fetch --unshallow" in capsys.readouterr().err


def test_uncommitted_changes_are_said_not_to_be_measured(capsys: pytest.CaptureFixture) -> None:
    begun(["impl=bisected_layer:Layer"])
    with open_history(Path(FILE)) as writer:
        writer.append(histories.commit(0, commit=git("rev-parse", "HEAD").strip()))
    Path("bisected_layer.py").write_text("changed")
    for more in ([], ["impl=bisected_layer:Layer"], ["HEAD"], ["main"]):
        assert main(["history", "add", FILE, *more, "--exact"]) == 0
        assert "they are not measured" in capsys.readouterr().err


def test_a_pair_whose_measurement_failed_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    begun()
    failed = histories.directly(5, 6, 0.0).model_copy(update={"time": Ratio(reason="killed")})
    with open_history(Path(FILE)) as writer:
        for line in [*histories.stepping({6: 0.08}), failed]:
            writer.append(line)
    compared = []

    def compare_directly(config: object, before: str, after: str, key: str, writer: Writer, tell: object) -> None:
        compared.append((before, after))
        writer.append(histories.directly(5, 6, 0.08))

    monkeypatch.setattr("harness.extras.commits.commands.compare_directly", compare_directly)
    assert main(["history", "page", FILE, "--confirm"]) == 1
    assert main(["history", "page", FILE, "--confirm"]) == 1
    assert compared == [(histories.name(5), histories.name(6))]


@pytest.mark.slow
def test_a_package_in_an_environment_inside_the_repository_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    layers(4)
    packages = Path(".venv/lib/site-packages").resolve()
    packages.mkdir(parents=True)
    (packages / "packaged_layer.py").write_text(LAYER.format(products=4))
    monkeypatch.setattr("sys.prefix", str(Path(".venv").resolve()))
    monkeypatch.syspath_prepend(packages)
    assert main(["history", "add", FILE, "impl=packaged_layer:Layer", *TINY[1:], "--exact"]) == 2
    assert "is not of this repository" in capsys.readouterr().err


def test_a_confirmed_slowdown_is_1_until_it_is_blessed(capsys: pytest.CaptureFixture) -> None:
    begun()
    with open_history(Path(FILE)) as writer:
        for line in [*histories.stepping({6: 0.08}), histories.directly(5, 6, 0.08)]:
            writer.append(line)
    assert main(["history", "page", FILE]) == 1
    assert main(["history", "bless", FILE, histories.name(6)[-40:], "reason=intended"]) == 0
    assert main(["history", "page", FILE]) == 0
