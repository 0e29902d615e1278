"""`predict` and `recommend`, on runs whose costs are known formulas. What they print is in tests/screens."""

from pathlib import Path

import pytest
from cli.known_runs import SIZES, cases, write

from harness.cli.commands import main
from harness.sweep_axes import Case


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


@pytest.mark.parametrize("value", ["padding_fraction=0", "padding_fraction=0.0", "real_share=1.0"])
def test_a_setting_is_compared_as_a_number(value: str, run: Path) -> None:
    size = ["seq_len=1024", "d_model=256", "num_heads=8"]
    assert main(["predict", str(run), "impl=attention.fused", *size, value]) == 0
