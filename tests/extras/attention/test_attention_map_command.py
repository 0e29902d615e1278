"""`attention-map` as a user runs it."""

import csv
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from harness.cli.commands import main
from harness.cli.parsers import parse_options
from harness.core.model.errors import UsageError
from harness.core.run.executor import Executor
from harness.extras.attention.commands import run_attention_map

ODD = "[red] $x$ 😀 שלום naïve 你好 </text> a\u202eb the the"
SMALL = ["d_model=8", "num_heads=2"]
LAYERS = "extras.attention.layers"


class Lent:
    """A runner that goes on after the command."""

    def __init__(self, runner: Executor) -> None:
        self._runner = runner

    def __enter__(self) -> Executor:
        return self._runner

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Executor) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.core.run.executor.short_executor", lambda: Lent(runner))
    return tmp_path


def table(directory: Path) -> list[dict[str, str]]:
    with (directory / "attention_map.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_sentence_becomes_pictures_and_a_table(elsewhere: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["attention-map", "the cat sat", *SMALL, "out=map"]) == 0
    out = capsys.readouterr().out
    assert "Every row sums to 1, to within " in out
    for name in ("plots/attention_map.png", "plots/attention_map.svg", "attention_map.csv"):
        assert f"map/{name}" in out
        assert (elsewhere / "map" / name).stat().st_size > 0
    rows = table(elsewhere / "map")
    assert len(rows) == 2 * 3 * 3
    assert list(rows[0]) == ["head", "query", "query_position", "key", "key_position", "weight"]
    for head in "12":
        for place in "123":
            of_row = [row for row in rows if (row["head"], row["query_position"]) == (head, place)]
            assert [row["key"] for row in of_row] == ["the", "cat", "sat"]
            assert sum(float(row["weight"]) for row in of_row) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    ("impl", "whose"),
    [("attention.packed", "untrained, seed 3"), (f"{LAYERS}:BringsItsWeights", "own weights")],
)
def test_the_table_and_the_picture_say_whose_weights_they_show(
    elsewhere: Path, capsys: pytest.CaptureFixture, impl: str, whose: str
) -> None:
    assert main(["attention-map", "the cat sat", *SMALL, f"impl={impl}", "seed=3", "out=map"]) == 0
    assert f"Each word looks most at ({whose}):\n" in capsys.readouterr().out
    shown = ElementTree.parse(elsewhere / "map/plots/attention_map.svg").iter()
    assert whose in " ".join(element.text or "" for element in shown)


def test_words_may_be_anything_and_are_read_as_nothing_else(elsewhere: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["attention-map", ODD, *SMALL, "out=map"]) == 0
    shown = [element.text for element in ElementTree.parse(elsewhere / "map/plots/attention_map.svg").iter()]
    for label in ("[red]", "$x$", "😀", "שלום", "naïve", "</text>", r"a\u202eb"):
        assert shown.count(label) == 3  # two panels' words below, one panel's beside
    out = capsys.readouterr().out
    assert "[red]" in out
    assert "$x$" in out
    assert "\u202e" not in out
    assert [row["query"] for row in table(elsewhere / "map")][: 10 * 10 : 10] == ODD.split()


@pytest.mark.parametrize(("sentence", "words"), [("hello", 1), ("\n word \t" * 40, 40)])
def test_one_word_and_forty_are_sentences(elsewhere: Path, sentence: str, words: int) -> None:
    assert main(["attention-map", sentence, "d_model=4", "num_heads=1", "out=map"]) == 0
    assert len(table(elsewhere / "map")) == words**2


def test_without_a_place_it_makes_one_in_results(elsewhere: Path) -> None:
    assert main(["attention-map", "the \udce9 cat", *SMALL, f"impl={LAYERS}:Uniform", "mask=causal"]) == 0
    (made,) = (elsewhere / "results").iterdir()
    assert (made / "plots/attention_map.png").is_file()
    rows = [row for row in table(made) if row["head"] == "1"]
    assert [float(row["weight"]) for row in rows] == pytest.approx([1, 0, 0, 1 / 2, 1 / 2, 0, 1 / 3, 1 / 3, 1 / 3])
    assert rows[3]["query"] == r"\udce9"  # what is no character is written out


def test_in_a_run_the_pictures_go_to_its_plots_and_a_second_map_takes_the_firsts_place(elsewhere: Path) -> None:
    run = elsewhere / "run"
    (run / "rows").mkdir(parents=True)
    (run / "config.yaml").write_text("seed: 0\n")
    for words in ("the cat", "the cat sat"):
        assert main(["attention-map", words, *SMALL, "out=run"]) == 0
    assert len(table(run)) == 2 * 9
    assert (run / "plots/attention_map.svg").is_file()
    assert (run / "config.yaml").read_text() == "seed: 0\n"


@pytest.mark.parametrize(
    ("impl", "message"),
    [
        ("rnn.elman", "it has no method attention_weights"),
        (f"{LAYERS}:DoesNotSum", "sum to 1"),
    ],
)
def test_a_layer_without_weights_that_sum_to_1_gets_one_line_and_nothing_is_written(
    impl: str, message: str, elsewhere: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["attention-map", "the cat", f"impl={impl}"]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert (err.count("\n"), out) == (1, "")
    assert list(elsewhere.iterdir()) == []


def test_the_command_itself_needs_no_torch(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = (
        "import sys; from harness.cli.commands import main; "
        "done = main(['attention-map', 'hello', 'd_model=2', 'num_heads=1', 'out=map']); "
        "sys.exit(10 if 'torch' in sys.modules else done)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (elsewhere / "map/plots/attention_map.svg").is_file()


@pytest.mark.parametrize("typed", [[], ["mask=causal"], ["", "mask=causal"]])
def test_a_map_without_a_sentence_shows_where_it_goes(typed: list[str]) -> None:
    with pytest.raises(UsageError, match=r"""give (a|the) sentence.*: python -m harness attention-map "the cat"""):
        run_attention_map(parse_options("attention-map", typed))
