"""`python -m harness recommend`, on a run whose numbers the test chooses."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest
from rows import attention_time, measured, rnn_time, row

from harness.cli.commands import main
from harness.sweep_axes import Case

SIZES = (64, 128, 256, 512, 1024, 2048)
CONFIG = """\
precision: {target: 0.05, min_rounds: 3, max_rounds: 3, trial_s: 0.1, timeout_s: 9, case_s: 100, patience_s: 1}
"""


def write(run: Path, cases: Iterable[Case]) -> Path:
    """A run in which attention costs 8nd² + 4n²d at 10¹¹/s and an RNN 4nd² at 2·10¹⁰/s."""
    (run / "rows").mkdir(parents=True)
    (run / "config.yaml").write_text(CONFIG)
    (run / "machine.json").write_text("{}")
    rows = []
    for case in cases:
        rnn = case.impl.startswith("rnn")
        bytes_ = 12 * case.seq_len * case.d_model if rnn else 8 * case.seq_len**2 + 16 * case.seq_len * case.d_model
        rows += measured(case, rnn_time(case) if rnn else attention_time(case), bytes_)
    text = "".join(json.dumps({"schema": 2, **row}) + "\n" for row in rows)
    (run / "rows" / "host-1.jsonl").write_text(text)
    return run


def cases(**changed: object) -> list[Case]:
    attention = [Case("attention.fused", n, d, h, **changed) for n in SIZES for d in (64, 128, 256) for h in (2, 4, 8)]
    return attention + [Case("rnn.torch", n, d, 1, **changed) for n in SIZES for d in (64, 128, 256)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("run"), cases())


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two dtypes and two batch sizes, and training alone."""
    kinds = [{"dtype": "float32"}, {"dtype": "bfloat16"}, {"dtype": "bfloat16", "batch_size": 2}]
    return write(tmp_path_factory.mktemp("several"), [case for kind in kinds for case in cases(mode="train", **kind)])


def said(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    assert main(["recommend", *map(str, arguments)]) == 0
    return " ".join(capsys.readouterr().out.split())


def test_below_the_crossing_attention_is_recommended_and_above_it_the_rnn(
    run: Path, capsys: pytest.CaptureFixture
) -> None:
    # Equal where n = 3d.
    text = said(capsys, run, "seq_len=128", "d_model=256", "num_heads=4")
    assert text.startswith("Use attention.fused at n = 128, d = 256, h = 4, batch 1 (forward, float32, cpu, 1 thread):")
    assert "times as fast as rnn.torch" in text
    assert "sure: the fastest with probability 1.00" in text
    assert "measured" in text
    assert said(capsys, run, "seq_len=2048", "d_model=256", "num_heads=4").startswith("Use rnn.torch")


def test_a_size_that_was_not_measured_is_predicted(run: Path, capsys: pytest.CaptureFixture) -> None:
    text = said(capsys, run, "seq_len=3000", "d_model=256", "num_heads=4")
    assert text.startswith("Use rnn.torch")
    assert "predicted" in text
    far = said(capsys, run, "seq_len=100000", "d_model=256", "num_heads=4")
    assert "far outside what was measured" in far


def test_what_does_not_fit_is_left_out_and_said_to_be(run: Path, capsys: pytest.CaptureFixture) -> None:
    text = said(capsys, run, "seq_len=128", "d_model=256", "num_heads=4", "memory=500KiB")
    assert text.startswith("Use rnn.torch")
    assert "It is the only one to choose from. Left out: attention.fused, which may need 640 KiB" in text


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("", "seq_len is missing"),
        ("seq_len=128,", "seq_len=: it takes a whole number"),
        ("seq_len=128 num_heads=4", "the run has d_model=64,128,256: say which"),
        ("seq_len=128 d_model=256", "the run has num_heads=2,4,8: say which"),
        ("seqlen=128", "unknown key 'seqlen'; did you mean 'seq_len'?"),
        ("seq_len", "'seq_len' is not of the form key=value"),
        ("seq_len=1 seq_len=2", "seq_len is given twice"),
        ("seq_len=abc d_model=256 num_heads=4", "seq_len=abc: it takes a whole number"),
        ("seq_len=0 d_model=256 num_heads=4", "seq_len=0: it takes"),
        ("seq_len=128 d_model=256 num_heads=3", "d_model=256 is not divisible by num_heads=3"),
        ("seq_len=128 d_model=256 num_heads=4 memory=much", "memory=much: it takes bytes"),
        ("seq_len=128 d_model=256 num_heads=4 memory=1KiB", "no layer is sure to fit into memory=1.00 KiB: rnn.torch"),
        ("seq_len=128 d_model=256 num_heads=4 mode=train", "has no times for mode=train; it has mode=forward"),
        ("seq_len=128 d_model=256 num_heads=4 dtype=float16", "has no times for dtype=float16; it has dtype=float32"),
        ("seq_len=128 d_model=256 num_heads=4 batch_size=2", "only batch_size=1 measured"),
        ("seq_len=1" + "0" * 400 + " d_model=256 num_heads=4", "it takes a whole number"),
    ],
)
def test_what_cannot_be_answered_gets_one_line(
    keys: str, message: str, run: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["recommend", str(run), *keys.split()]) == 2
    out, err = capsys.readouterr()
    assert message in err
    assert (err.startswith("harness: "), err.count("\n"), out) == (True, 1, "")


def test_heads_that_nothing_was_measured_at_are_not_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    own = write(tmp_path / "own", [Case("their:Attention", n, 64, 1) for n in SIZES])
    for command in ("recommend", "predict"):
        assert main([command, str(own), "seq_len=512", "d_model=64", "num_heads=8"]) == 2
        err = capsys.readouterr().err
        assert "their:Attention: num_heads=8 was requested and only num_heads=1 measured" in err
    assert said(capsys, own, "seq_len=512", "d_model=64", "num_heads=1").startswith("Use their:Attention")


def test_somebodys_own_layer_without_heads_is_predicted_at_its_one(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    beside = write(tmp_path / "own", [*cases(), *(Case("their:Rnn", n, 64, 1) for n in SIZES)])
    assert main(["predict", str(beside), "impl=their:Rnn", "seq_len=512", "d_model=64", "num_heads=8"]) == 0
    assert "measured" in capsys.readouterr().out


def test_what_failed_at_the_size_is_left_out_with_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run = write(tmp_path / "run", cases())
    at = Case("attention.fused", 4096, 256, 8)
    with (run / "rows" / "host-1.jsonl").open("a") as file:
        file.write(json.dumps({"schema": 2, **row(at, "facts", status="oom", reason="can't allocate")}) + "\n")
    text = said(capsys, run, "seq_len=4096", "d_model=256", "num_heads=8")
    assert "Left out: attention.fused: oom there: can't allocate." in text


def test_several_lengths_are_answered_one_after_the_other(run: Path, capsys: pytest.CaptureFixture) -> None:
    at = ("d_model=256", "num_heads=4")
    text = said(capsys, run, "seq_len=128,2048", *at)
    assert text.index("Use attention.fused at n = 128") < text.index("Use rnn.torch at n = 2048")
    # Where nothing fits at one of them, it is said of that one.
    text = said(capsys, run, "seq_len=128,2048", *at, "memory=1MiB")
    assert "Use attention.fused at n = 128" in text
    assert (
        "At n = 2048, d = 256, h = 4, batch 1 (forward, float32, cpu, 1 thread): no layer is sure to fit into" in text
    )


def test_a_run_of_several_settings_asks_which(several: Path, capsys: pytest.CaptureFixture) -> None:
    size = ["seq_len=128", "d_model=256", "num_heads=4"]
    assert main(["recommend", str(several), *size, "mode=train"]) == 2
    assert "has dtype=bfloat16,float32: say which" in capsys.readouterr().err
    assert main(["recommend", str(several), *size, "mode=train", "dtype=bfloat16"]) == 2
    assert "batch_size=1,2: say which" in capsys.readouterr().err
    text = said(capsys, several, *size, "mode=train", "dtype=bfloat16", "batch_size=2")
    assert "batch 2 (train, bfloat16" in text


def test_what_is_no_run_or_holds_no_times_is_said_to_be_so(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    size = ["seq_len=128", "d_model=256", "num_heads=4"]
    assert main(["recommend", str(tmp_path / "absent"), *size]) == 2
    assert "is not a run" in capsys.readouterr().err
    empty = write(tmp_path / "empty", [])
    assert main(["recommend", str(empty), *size]) == 2
    assert "has no times to predict from" in capsys.readouterr().err


def test_one_size_and_a_failure_are_enough_to_repeat_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    run = write(tmp_path / "one", [Case("attention.fused", 64, 16, 2), Case("rnn.torch", 64, 16, 1)])
    assert "measured" in said(capsys, run, "seq_len=64", "d_model=16", "num_heads=2")
    assert main(["recommend", str(run), "seq_len=128", "d_model=16", "num_heads=2"]) == 2
    assert "only seq_len=64 measured" in capsys.readouterr().err
