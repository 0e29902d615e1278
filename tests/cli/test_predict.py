"""`python -m harness predict`, on a run whose numbers the test chooses."""

from pathlib import Path

import pytest
from cli.test_recommend import cases, write

from harness.cli.commands import main


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("run"), cases())


def said(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    assert main(["predict", *map(str, arguments)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_time_and_memory_at_a_size_that_was_not_measured(run: Path, capsys: pytest.CaptureFixture) -> None:
    text = said(capsys, run, "impl=attention.fused", "seq_len=4096", "d_model=256", "num_heads=8")
    # 8nd² + 4n²d at 10¹¹/s: 193 ms; 8n² + 16nd bytes: 144 MiB, or more if another phase takes over
    assert "At n = 4096, d = 256, h = 8, batch 1 (forward, float32, cpu, 1 thread)" in text
    assert "attention.fused time 193 ms" in text
    assert "attention.fused memory 144 MiB 144 MiB to" in text
    assert "rnn.torch" not in text.split("Prediction check")[0]


def test_every_prediction_comes_with_how_well_laws_predicted_here(run: Path, capsys: pytest.CaptureFixture) -> None:
    text = said(capsys, run, "seq_len=4096", "d_model=256", "num_heads=8")
    assert "Prediction check: cost models fitted to" in text
    assert "rnn.torch time" in text


def test_several_lengths_are_a_table_each(run: Path, capsys: pytest.CaptureFixture) -> None:
    text = said(capsys, run, "impl=attention.fused", "seq_len=1024,4096", "d_model=256", "num_heads=8")
    assert text.index("At n = 1024, d = 256, h = 8") < text.index("At n = 4096, d = 256, h = 8")
    assert text.count("Prediction check: cost models fitted to n ≤ 512 predict the time") == 1


def test_what_the_run_has_one_value_of_need_not_be_said(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    narrow = write(tmp_path / "run", [case for case in cases() if (case.d_model, case.num_heads) in ((64, 4), (64, 1))])
    assert "At n = 4096, d = 64, h = 4, batch 1" in said(capsys, narrow, "seq_len=4096")
    # The heads of others are nothing to a layer that has none.
    assert "rnn.torch time" in said(capsys, run, "impl=rnn.torch", "seq_len=4096", "d_model=256")


def test_what_was_measured_is_said_to_be(run: Path, capsys: pytest.CaptureFixture) -> None:
    assert "measured" in said(capsys, run, "impl=rnn.torch", "seq_len=2048", "d_model=256", "num_heads=8")


def test_far_outside_is_a_plain_warning_told_once(run: Path, capsys: pytest.CaptureFixture) -> None:
    text = said(capsys, run, "impl=rnn.torch", "seq_len=65536", "d_model=256", "num_heads=8")
    assert text.count("far outside what was measured: seq_len=65536 is 32 times beyond 64 to 2048") == 1


def test_a_setting_is_compared_as_a_number(run: Path, capsys: pytest.CaptureFixture) -> None:
    for value in ("padding_fraction=0", "padding_fraction=0.0", "real_share=1.0"):
        said(capsys, run, "impl=attention.fused", "seq_len=1024", "d_model=256", "num_heads=8", value)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ("impl=rnn.torh seq_len=64 d_model=64 num_heads=2", "did you mean 'rnn.torch'?"),
        ("seq_len=64 d_model=64", "the run has num_heads=2,4,8: say which"),
        ("impl=rnn.torch seq_len=64 d_model=64 num_heads=3", "not divisible"),
        ("impl=rnn.torch seq_len=0 d_model=64 num_heads=2", "seq_len=0: it takes a whole number"),
        ("seqlen=64 d_model=64 num_heads=2", "did you mean 'seq_len'?"),
        ("seq_len=64 d_model=64 num_heads=2 batch_size=4", "only batch_size=1 measured"),
        ("seq_len=64 d_model=64 num_heads=2 mode=train", "has no times for mode=train"),
        ("seq_len=64 seq_len=65 d_model=64 num_heads=2", "given twice"),
        ("64", "not of the form key=value"),
    ],
)
def test_what_cannot_be_answered_is_one_line(run: Path, capsys: pytest.CaptureFixture, keys: str, says: str) -> None:
    assert main(["predict", str(run), *keys.split()]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_what_is_no_run_is_said_to_be_none(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert main(["predict", str(tmp_path), "seq_len=64", "d_model=64", "num_heads=2"]) == 2
    assert "is not a run" in capsys.readouterr().err
