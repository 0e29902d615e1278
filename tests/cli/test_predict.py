"""`predict` and `recommend`, on runs whose costs are known formulas. What they print is in tests/screens."""

import math
import re
from pathlib import Path

import pytest
from cli.known_runs import SIZES, cases, write
from screens.text_file import printed as text_on
from screens.text_file import terminal

from harness.analysis.fitted_laws import Prediction
from harness.analysis.predict import Candidate, Recommendation, SizeRequest, probabilities_of_least
from harness.cli.commands import main
from harness.cli.predict import recommendation
from harness.fit.laws import Range
from harness.report.document import show
from harness.sweep_axes import Case, Setting


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("run"), cases())


@pytest.mark.parametrize(("n", "fastest"), [(128, "attention.fused"), (2048, "rnn.torch"), (3000, "rnn.torch")])
def test_below_the_crossing_attention_is_recommended_and_above_it_the_rnn(
    n: int, fastest: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Equal where n = 3d.
    assert main(["recommend", str(run), f"seq_len={n}", "d_model=256", "num_heads=4"]) == 0
    assert capsys.readouterr().out.startswith(f"Use {fastest} at n = {n}")


def test_somebodys_own_layer_without_heads_is_predicted_at_its_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = write(tmp_path / "own", [*cases(), *(Case("their:Rnn", n, 64, 1) for n in SIZES)])
    assert main(["predict", str(beside), "impl=their:Rnn", "seq_len=512", "d_model=64", "num_heads=8"]) == 0
    assert "measured" in capsys.readouterr().out


@pytest.mark.parametrize("value", ["padding_fraction=0", "padding_fraction=0.0"])
def test_a_setting_is_compared_as_a_number(value: str, run: Path) -> None:
    size = ["seq_len=1024", "d_model=256", "num_heads=8"]
    assert main(["predict", str(run), "impl=attention.fused", *size, value]) == 0


def test_the_values_of_a_setting_are_listed_as_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = [Case("attention.fused", n, 64, 1, kv_len=m) for n in SIZES for m in (256, 64, 1024)]
    assert main(["predict", str(write(tmp_path, sources)), "seq_len=512"]) == 2
    assert "has kv_len=64,256,1024: choose one, such as kv_len=64" in capsys.readouterr().err


def test_a_key_that_may_be_a_keyword_of_the_layer_is_hinted_at(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(run), "seq_len=1024", "window=48"]) == 2
    assert capsys.readouterr().err.endswith("; a keyword of the layer is layer.window=…\n")


def ranked(*times: Prediction) -> Recommendation:
    candidates = tuple(Candidate(f"layer.{at}", time, None) for at, time in enumerate(times))
    first, second = times[:2]
    ratio = Range(second.value / first.value, 0.0, math.inf)
    return Recommendation(candidates, (), (), probabilities_of_least(times), ratio)


def printed(found: Recommendation) -> str:
    where = SizeRequest((512, 256, 8, 1), Setting())
    console = terminal()
    show(recommendation(found, where, None), console)
    return text_on(console)


def test_a_prediction_too_uncertain_is_said_to_be_that_and_has_no_number() -> None:
    sure, vague = Prediction(1e-3, 0.9e-3, 1.1e-3, False), Prediction(1.0, 1e-4, 1e4, False)
    text = printed(ranked(sure, vague))
    assert "The time of layer.1 is too uncertain to predict; " in text
    (row,) = [line for line in text.splitlines() if line.startswith("layer.1 ")]
    assert row.split()[1:5] == ["too", "uncertain", "to", "predict"]
    assert printed(ranked(vague, vague)).startswith("No recommendation at n = 512")


def test_layers_are_ordered_by_expected_time_with_the_probability_of_each() -> None:
    alike = Prediction(1e-3, 0.9e-3, 1.1e-3, False)
    text = printed(ranked(alike, alike, alike))
    assert text.startswith("No clear recommendation at n = 512")
    assert "by expected time\n" in text
    assert len(re.findall(r"0\.3[34]", text)) == 4, "each layer's, and the first one's in the sentence"
