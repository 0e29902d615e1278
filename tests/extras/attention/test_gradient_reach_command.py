"""`gradient-reach` as a user runs it."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from extras.attention.test_attention_map_command import Lent

from harness.cli.commands import main
from harness.core.run.executor import Executor

SMALL = ["seq_len=24", "d_model=8", "num_heads=2", "seeds=4"]
LAYERS = "extras.attention.layers"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runner: Executor) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.core.run.executor.short_executor", lambda: Lent(runner))
    return tmp_path


def said(capsys: pytest.CaptureFixture, *arguments: str, status: int = 0) -> str:
    assert main(["gradient-reach", *SMALL, *arguments]) == status
    return " ".join(capsys.readouterr().out.split())


def table(directory: Path) -> list[dict[str, str]]:
    with (directory / "gradient_reach.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_layers_become_a_picture_a_table_and_a_sentence_each(elsewhere: Path, capsys: pytest.CaptureFixture) -> None:
    text = said(capsys, "impl=rnn.elman,attention.packed", "out=reach")
    assert "rnn.elman: each step back keeps 0." in text
    for name in ("plots/gradient_reach.png", "plots/gradient_reach.svg", "gradient_reach.csv"):
        assert f"reach/{name}" in text
        assert (elsewhere / "reach" / name).stat().st_size > 0
    rows = table(elsewhere / "reach")
    assert list(rows[0]) == ["impl", "seed", "distance", "norm"]
    assert len(rows) == 2 * 4 * 24
    assert {row["impl"] for row in rows} == {"rnn.elman", "attention.packed"}
    picture = (elsewhere / "reach/plots/gradient_reach.svg").read_text()
    assert "rnn.elman: keeps 0." in picture


def test_what_is_known_of_a_layer_is_what_is_told_of_it(capsys: pytest.CaptureFixture) -> None:
    known = ",".join(f"{LAYERS}:{name}" for name in ("Fades", "FadesAway", "TakesNoMask"))
    text = said(capsys, f"impl={known}", "out=reach")
    assert "each step back keeps 0.800 (0.800 to 0.800) of it; half is gone after 3.11 tokens." in text
    assert "Beyond 14 tokens it is below 1e-290, too small for a float64." in text
    assert "TakesNoMask: no fading over 23 tokens" in text  # it was asked without one


def test_the_table_and_the_picture_say_whose_weights_they_are_of(
    elsewhere: Path, capsys: pytest.CaptureFixture
) -> None:
    theirs = f"{LAYERS}:BringsItsWeights"
    text = said(capsys, f"impl=rnn.elman,{theirs}", "out=reach")
    assert "What each step back keeps (untrained, seeds 0 to 3):" in text
    assert f"{theirs} (own weights): " in text
    assert "rnn.elman: " in text
    picture = (elsewhere / "reach/plots/gradient_reach.svg").read_text()
    assert "untrained, seeds 0 to 3" in picture
    assert picture.count("own weights") == 1  # in the legend
    assert "What each step back keeps (own weights):" in said(capsys, f"impl={theirs}", "out=alone")


def test_a_single_token_has_no_distance(elsewhere: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["gradient-reach", "seq_len=1", "d_model=4", "seeds=1", "impl=rnn.elman", "out=reach"]) == 0
    assert "too few distances to tell a rate." in capsys.readouterr().out
    assert [row["distance"] for row in table(elsewhere / "reach")] == ["0"]


def test_one_wrong_layer_does_not_cost_the_others(elsewhere: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["gradient-reach", *SMALL, f"impl=rnn.elman,{LAYERS}:Explodes", "out=reach"]) == 3
    out, err = capsys.readouterr()
    assert "rnn.elman: each step back" in " ".join(out.split())
    assert err == f"harness: {LAYERS}:Explodes: incorrect: its gradient is not finite\n"
    assert {row["impl"] for row in table(elsewhere / "reach")} == {"rnn.elman"}


def test_without_a_finite_gradient_nothing_is_written(elsewhere: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["gradient-reach", f"impl={LAYERS}:Explodes", *SMALL]) == 2
    assert f"{LAYERS}:Explodes: its gradient is not finite" in capsys.readouterr().err
    assert list(elsewhere.iterdir()) == []
