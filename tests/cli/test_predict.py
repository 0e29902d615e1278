"""`predict` and `recommend`, on runs whose costs are known formulas. What they print is in tests/screens."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
import rows
from cli.known_runs import SIZES, cases, write
from screens.text_file import printed as text_on
from screens.text_file import terminal

from harness.cli.commands import main
from harness.cli.predict import recommendation
from harness.core.model import formatting
from harness.core.model.sweep_axes import Case, Setting
from harness.study.laws.fitted_laws import Prediction
from harness.study.laws.laws import Range
from harness.study.laws.predict import Candidate, Recommendation, SizeRequest, probabilities_of_least
from harness.study.report.document import show


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


def test_a_mix_of_sizes_is_recommended_for_by_its_mean_time(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shapes.csv").write_text("seq_len,weight\n128,999\n4096,1\n")
    for mix, fastest in (
        ("128:0.999,4096:0.001", "attention.fused"),
        ("shapes.csv", "attention.fused"),
        ("128:0.5,4096:0.5", "rnn.torch"),
    ):
        assert main(["recommend", str(run), f"mix={mix}", "d_model=256", "num_heads=4"]) == 0
        assert capsys.readouterr().out.startswith(f"Use {fastest} at mix=")


def test_the_parts_of_a_mix_may_be_modes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = [Case("rnn.torch", n, 64, 1, mode=mode) for n in SIZES for mode in ("forward", "train")]
    run = str(write(tmp_path / "both", both))
    assert main(["recommend", run, "mix=forward:3,train:1", "seq_len=512"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("Use rnn.torch at mix=forward:3,train:1")


@pytest.mark.parametrize(
    ("mix", "said"),
    [
        ("64", "weight=: it takes a number above 0, the share of calls of this size"),
        ("64:0", "weight=0: it takes a number above 0, the share of calls of this size"),
        ("missing.csv", "mix=missing.csv cannot be read: No such file or directory"),
        ("forward:1", "seq_len is missing"),
    ],
)
def test_a_mistake_in_a_mix_is_one_line(mix: str, said: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", str(run), f"mix={mix}", "d_model=256", "num_heads=4"]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_somebodys_own_layer_without_heads_is_predicted_at_its_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beside = write(tmp_path / "own", [*cases(), *(Case("their:Rnn", n, 64, 1) for n in SIZES)])
    assert main(["predict", str(beside), "impl=their:Rnn", "seq_len=512", "d_model=64", "num_heads=8"]) == 0
    assert "measured" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["predict", "recommend"])
def test_the_mode_taken_and_the_others_are_told_if_none_is_given(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = [Case("rnn.torch", n, 64, 1, mode=mode) for n in SIZES for mode in ("forward", "train")]
    run = [command, str(write(tmp_path / "both", both)), "seq_len=512"]
    assert main(run) == 0
    assert capsys.readouterr().err == "harness: mode=forward is taken: the run also has mode=train\n"
    assert main([*run, "mode=train"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "train" in said.out


def test_layers_without_a_law_of_memory_are_named_in_one_sentence() -> None:
    sure = Prediction(1e-3, 0.9e-3, 1.1e-3, False)
    assert "layer.0, layer.1: no law of memory" in printed(ranked(sure, sure))


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
    show(recommendation(found, str(where), None), console)
    return text_on(console)


def test_a_prediction_too_uncertain_is_said_to_be_that_and_has_no_number() -> None:
    sure, vague = Prediction(1e-3, 0.9e-3, 1.1e-3, False), Prediction(1.0, 1e-4, 1e4, False)
    text = printed(ranked(sure, vague))
    assert "The time of layer.1 is too uncertain to predict; " in text
    (row,) = [line for line in text.splitlines() if line.startswith("layer.1 ")]
    assert row.split()[1:5] == ["too", "uncertain", "to", "predict"]
    assert printed(ranked(vague, vague)).startswith("No recommendation at n = 512")


def test_a_warning_qualifies_the_probability() -> None:
    first, later = (Prediction(value, 0.9 * value, 1.1 * value, False) for value in (1e-3, 2e-3))
    assert "; sure: the fastest with probability 1.00.\n" in printed(ranked(first, later))
    text = printed(ranked(first, replace(later, warnings=("a guess",))))
    assert "; likely: the fastest with probability 1.00, apart from the remarks below." in " ".join(text.split())
    assert "layer.1: time: a guess" in text


def test_layers_are_ordered_by_expected_time_with_the_probability_of_each() -> None:
    alike = Prediction(1e-3, 0.9e-3, 1.1e-3, False)
    text = printed(ranked(alike, alike, alike))
    assert text.startswith("No clear recommendation at n = 512")
    assert "by expected time\n" in text
    assert len(re.findall(r"0\.3[34]", text)) == 4, "each layer's, and the first one's in the sentence"


@pytest.fixture(scope="module")
def over_sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over n and m, beside one without a source: 20 µs and 4nmd FLOPs at 10¹¹/s."""
    run = tmp_path_factory.mktemp("sources") / "run"
    sources = [Case("sdpa.fused", n, 64, 1, kv_len=m) for n in SIZES for m in (256, 64, 128, 1024, 0)]
    write(run, sources)
    file = run / "rows" / "host-1.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        case = row["case"]
        work = 4 * case["seq_len"] * (case["kv_len"] or case["seq_len"]) * case["d_model"]
        if row["purpose"] == "time":
            row["samples_s"] = [2e-5 + work / 1e11] * 2
        if row["purpose"] == "facts":
            row["flops"] = work
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return run


@pytest.mark.parametrize("m", [512, 2048])
@pytest.mark.parametrize("key", ["kv_len", "m"])
def test_a_source_that_was_not_measured_is_predicted(
    key: str, m: int, over_sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(over_sources), "n=512", f"{key}={m}"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"At n = 512, d = 64, h = 1, batch 1 (forward, source of {m}, float32, cpu, 1 ")
    flops, time = (next(line for line in out.splitlines() if f" {cost} " in line) for cost in ("flops", "time"))
    assert formatting.count(4 * 512 * m * 64) in flops
    assert ("law, exact at the measured" in flops) == (m <= 1024)  # beyond the measured sources, the law may end
    assert formatting.seconds(2e-5 + 4 * 512 * m * 64 / 1e11) in time


def test_far_beyond_the_sources_a_prediction_is_a_guess(over_sources: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(over_sources), "n=512", "m=8k"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "kv_len=8192 is 8 times beyond 64 to 1024; take it as a guess" in said


def test_without_a_source_the_cases_without_one_are_predicted(
    over_sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(over_sources), "n=512", "kv_len=0"]) == 0
    assert formatting.count(4 * 512 * 512 * 64) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([], "has kv_len=0,64,128,256,1024: choose one, such as kv_len=0"),
        (["kv_len=-1"], "kv_len=-1"),
    ],
)
def test_a_source_that_is_missing_or_none_is_one_line(
    given: list[str], said: str, over_sources: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(over_sources), "n=512", *given]) == 2
    assert said in capsys.readouterr().err


def test_no_source_is_predicted_of_a_run_without_one_nor_another_of_a_run_with_one(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = ["n=1024", "d=256", "h=8", "impl=attention.fused"]
    assert main(["predict", str(run), *size, "kv_len=64"]) == 2
    assert "has no times for kv_len=64; it has kv_len=0" in capsys.readouterr().err
    one = write(tmp_path / "one", [Case("attention.fused", n, 64, 1, kv_len=128) for n in SIZES])
    assert main(["predict", str(one), "n=512"]) == 0
    assert "source of 128" in capsys.readouterr().out
    assert main(["predict", str(one), "n=512", "kv_len=64"]) == 2
    assert "kv_len=64 was requested, and the law of time knows kv_len=128 only" in capsys.readouterr().err


def test_a_failure_at_a_smaller_size_is_said_beside_a_prediction_and_prevents_a_recommendation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(tmp_path / "run", cases())
    with (run / "rows" / "host-1.jsonl").open("a") as file:
        failed = rows.row(Case("rnn.torch", 3000, 256, 1), "facts", status="timeout", reason="no answer within 9 s")
        file.write(json.dumps({"schema": 2, **failed}) + "\n")
    size = ["seq_len=4096", "d_model=256", "num_heads=4"]
    assert main(["predict", str(run), "impl=rnn.torch", *size]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert " rnn.torch: timeout at n=3000 d=256: no answer within 9 s " in out
    assert main(["recommend", str(run), *size]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("Use attention.fused at n = 4096")
    assert "Left out: rnn.torch: timeout at n=3000 d=256: no answer within 9 s." in out


def test_a_layer_is_recommended_for_a_source(over_sources: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", str(over_sources), "n=512", "m=2048"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Use sdpa.fused at n = 512, d = 64, h = 1, batch 1 (forward, source of 2048")
