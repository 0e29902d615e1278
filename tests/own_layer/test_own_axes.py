"""Axes that a layer has of its own: `layer.window=64,256`, and letters of its own in claims and shapes."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from own_layer.test_own_layer import QUICK
from rows import usual_lines

from harness.cli.commands import main
from harness.core.config.compose import compose
from harness.core.layers import layer_lookup
from harness.core.model import own_axes
from harness.core.model.errors import UsageError
from harness.core.model.layer_options import options_of, point_with_options, sorted_options
from harness.core.model.sweep_axes import Case
from harness.core.trial.counts.collect import collect_metrics
from harness.core.trial.described_layer import describe_layer
from harness.core.trial.layer_protocol import unsupported_reason
from harness.core.trial.trial_kinds import outcome_of_exception
from harness.core.trial.verify import verify
from harness.core.trial.workload import build
from harness.study.complete_lines import with_stated_sizes

pytestmark = pytest.mark.usefixtures("forked_servers")
FILE = Path(__file__).parent / "functions.py"
REPEATS = str(FILE.with_name("repeats.py:Repeats"))
USUAL = ("impl=attention.fused", "seq_len=16", "d_model=16", "num_heads=1")


def harness(directory: Path, *arguments: str) -> str:
    """What the command prints, carried out in this process; it must end well."""
    printed = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed), redirect_stderr(printed):
        patch.chdir(directory)
        patch.setenv("COLUMNS", "200")
        assert main([*arguments]) == 0, printed.getvalue()
    return printed.getvalue()


def case_of(name: str, **given: Any) -> Case:
    return replace(Case(f"{FILE}:{name}", 12, 16, 4, batch_size=2), **given)


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        (["layer.window=64,256"], ("window=64", "window=256")),
        (["layer.window=[64]", "layer.page_size=16,32"], ("page_size=16+window=64", "page_size=32+window=64")),
        (["options=window=64+page_size=16"], ("page_size=16+window=64",)),
        (["options=none,window=64"], ("none", "window=64")),
        ([], ("none",)),
    ],
)
def test_options_span_an_axis(given: list[str], texts: tuple[str, ...]) -> None:
    assert compose([*USUAL, *given], for_sweep=True).axes["options"] == texts


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["layer.window="], "options=window=: it takes name=value"),
        (["layer.window=64", "layer.window=128"], "layer.window is given twice: give its values in one list"),
        (["layer.window=64", "options=window=128"], "are the same axis: give one of them"),
    ],
)
def test_options_that_cannot_be_read_are_a_mistake_in_words(given: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        compose([*USUAL, *given], for_sweep=True)


def test_points_have_options_of_their_own() -> None:
    points = "points=[{seq_len:16,layer.window:64,layer.bias:true},{seq_len:32,layer.window:128,layer.bias:false}]"
    sizes = ["impl=attention.fused", "d_model=16", "num_heads=1"]
    assert compose([*sizes, points], for_sweep=True).points == (
        {"seq_len": 16, "options": "bias=true+window=64"},
        {"seq_len": 32, "options": "bias=false+window=128"},
    )
    with pytest.raises(UsageError, match="are the same axis"):
        compose([*sizes, "points=[{seq_len:16,layer.window:64,options:none}]"], for_sweep=True)


def test_values_are_numbers_truth_values_and_words() -> None:
    assert options_of("a=1+b=0.5+c=true+d=null+e=fast") == {"a": 1, "b": 0.5, "c": True, "d": None, "e": "fast"}
    assert sorted_options("b=1+a=2") == "a=2+b=1"


@pytest.mark.parametrize("mode", ["forward", "train"])
@pytest.mark.parametrize(("options", "w"), [("none", 4), ("window=2", 2), ("window=7", 7)])
def test_claims_in_letters_of_their_own_hold_to_the_last_digit(mode: str, options: str, w: int) -> None:
    case = case_of("windowed", mode=mode, options=options)
    facts = collect_metrics(case, seed=0)
    assert facts["flops"] == facts["flops_claimed"] == 2 * (4 if mode == "forward" else 12) * 12 * w * 16
    assert verify(case, seed=0)["against"] == "_windowed_by_mask"


def test_a_shape_may_have_letters_of_its_own() -> None:
    assert build(case_of("expanded"), seed=0).inputs[1].shape == (2, 12, 16, 3)
    assert build(case_of("expanded", options="d_state=5"), seed=0).inputs[1].shape == (2, 12, 16, 5)


def test_any_keyword_with_a_default_is_an_axis_on_request() -> None:
    build(case_of("grouped", options="scale=0.5"), seed=0)
    assert verify(case_of("grouped", options="scale=0.5"), seed=0)["against"] == "itself in float64"


def test_an_unknown_option_is_named_with_the_one_that_is_meant() -> None:
    layer = layer_lookup.load_class(case_of("windowed").impl)
    assert unsupported_reason(layer, case_of("windowed", options="windw=2")) == (
        "it takes no option 'windw'; did you mean 'window'?"
    )


@pytest.mark.parametrize(("options", "r"), [("none", 2), ("times=3", 3)])
def test_the_constructor_of_a_class_takes_options_too(options: str, r: int) -> None:
    facts = collect_metrics(Case(REPEATS, 6, 8, 1, options=options), seed=0)
    assert facts["flops"] == facts["flops_claimed"] == 2 * 6 * r * 64


@pytest.mark.parametrize("stated", [{"window": "w"}, {"window": ("n", 4)}, {"window": ("ww", 4)}, 3])
def test_axes_that_are_not_letters_with_defaults_are_a_mistake(stated: Any) -> None:
    with pytest.raises(UsageError, match=r"axes"):
        own_axes.declared_axes(type("Layer", (), {"axes": stated}))


def test_an_axis_that_is_no_parameter_is_a_mistake() -> None:
    with pytest.raises(TypeError, match=r"has no parameter 'windw'; did you mean 'window'\?"):
        layer_lookup.load_class(case_of("misspelt").impl)


def test_an_axis_without_a_parameter_reaches_the_options_of_a_function_and_of_its_reference() -> None:
    received = layer_lookup.load_class(case_of("with_options").impl).function.__globals__["RECEIVED"]  # type: ignore[attr-defined]
    for options, window in [("none", 4), ("window=2", 2), ("window=7", 7)]:
        received.clear()
        assert verify(case_of("with_options", options=options), seed=0)["output_error"] < 1e-6
        assert {who for who, _ in received} == {"layer", "reference"}
        assert all(given == {"window": window} for _, given in received)


def test_an_axis_that_is_a_size_of_an_input_is_no_option_of_the_function() -> None:
    assert build(case_of("expanded_with_options", options="d_state=5"), seed=0).call().shape == (2, 12, 16)


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"tims": ("r", 2)}, "Layer.axes: Layer has no parameter 'tims'; did you mean 'times'?"),
        ({"times": ("r", 3)}, "Layer.axes has times=3, but Layer has times=2: give one default"),
        ({"times": ("r", 2.0)}, None),
    ],
)
def test_an_axis_of_a_class_is_a_parameter_with_the_same_default(
    tmp_path: Path, axes: dict[str, Any], said: str | None
) -> None:
    file = tmp_path / "one.py"
    file.write_text(
        "from torch import nn\n\n\nclass Layer(nn.Linear):\n"
        f"    axes = {axes}\n\n    def __init__(self, d_model, times=2):\n        super().__init__(d_model, d_model)\n"
    )
    assert describe_layer(Case(f"{file}:Layer", 1, 1, 1))["refused"] == said


@pytest.mark.parametrize(
    ("option", "wanted"),
    [
        ("w=abc", "layer.w=abc: it is a size of mine: give a whole number of 1 or more"),
        ("w=0", "layer.w=0: it is a size of mine: give a whole number of 1 or more"),
        ("w=1.5", "layer.w=1.5: it is a size of mine: give a whole number of 1 or more"),
        ("share=-0.5", "layer.share=-0.5: it is a size of mine: give a number above 0"),
        ("w=8+share=1", None),
        ("share=0.25", None),
        ("w=null", None),
        ("other=abc", None),
    ],
)
def test_a_value_that_no_size_can_have_is_refused_before_anything_is_measured(option: str, wanted: str | None) -> None:
    said = None
    try:
        own_axes.check_sizes("mine", '{"w": ["w", 64], "share": ["r", 0.5]}', option)
    except UsageError as error:
        said = str(error)
    assert said == wanted


def test_an_assertion_without_a_message_has_a_reason() -> None:
    assert outcome_of_exception(AssertionError())["reason"] == "AssertionError: no message"


def test_an_axis_and_its_parameter_have_one_default() -> None:
    with pytest.raises(TypeError, match=r"other_default.axes has window=8, but other_default has window=4: give one"):
        layer_lookup.load_class(case_of("other_default").impl)


def test_lines_along_an_own_axis_are_in_the_order_of_its_sizes() -> None:
    own = replace(usual_lines()[0], own_axes='{"window": ["w", 64]}')
    lines = [
        replace(own, seq_len=n, options=options) for n in (8, 16) for options in ("none", "window=128", "window=32")
    ]
    assert [(line.seq_len, line.options) for line in with_stated_sizes(lines)] == [
        (n, f"window={window}") for n in (8, 16) for window in (32, 64, 128)
    ]


def test_an_option_that_is_no_axis_has_the_default_of_its_parameter() -> None:
    described = describe_layer(case_of("unscaled_in_turns"))
    assert described["options"] == {"turns": "4"}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory, forked_servers: None) -> Path:
    """The directory of a run along an axis that its layer declares."""
    directory = tmp_path_factory.mktemp("swept")
    harness(directory, "sweep", *_SWEPT)
    return directory


_SWEPT = [f"impl={REPEATS}", "seq_len=16,32,64", "d_model=16", "layer.times=2,3,5", "mode=forward", *QUICK]


def test_a_sweep_along_an_axis_of_its_own_has_a_column_and_confirmed_claims(swept: Path) -> None:
    table = pd.read_csv(swept / "out" / "summary.csv")
    assert set(zip(table.seq_len, table.options, table.times, table.flops, strict=True)) == {
        (n, f"times={r}", r, 2 * n * r * 256) for n in (16, 32, 64) for r in (2, 3, 5)
    }
    claims = pd.read_csv(swept / "out" / "claims.csv").query("quantity == 'work'")
    assert list(zip(claims.claimed, claims.verdict, claims.reason, strict=True)) == [
        ("2nrd²", "confirmed", "to the last digit in 9 cases")
    ]


def test_its_cost_models_are_in_its_letter(swept: Path) -> None:
    laws = pd.read_csv(swept / "out" / "laws.csv").set_index("metric")
    assert laws.law["flops"] == "512 n·r"
    assert json.loads(laws.own_exponents["flops"]) == {"r": {"value": 1.0, "lo": 1.0, "hi": 1.0}}


def test_the_default_given_is_the_case_without_it(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [f"impl={REPEATS}", "seq_len=16", "d_model=16", "num_heads=1", "--dry-run", "-v"]
    keys = []
    for given in ([], ["layer.times=2"], ["options=none,times=2"]):
        main(["sweep", *sizes, *given])
        keys.append([line for line in capsys.readouterr().out.splitlines() if line.startswith("impl=")])
    assert keys[0] == keys[1] == keys[2]
    assert len(keys[0]) == 1


def test_a_default_may_be_given_as_a_float() -> None:
    text = '{"window": ["w", 128]}'
    assert (
        own_axes.without_default_sizes(text, "window=128.0")
        == own_axes.without_default_sizes(text, "window=128")
        == "none"
    )
    assert own_axes.without_default_sizes(text, "window=128.5") == "window=128.5"
    assert point_with_options({"layer.scale": 1.0}) == {"options": "scale=1.0"}


def test_titles_name_the_options_where_they_vary(swept: Path) -> None:
    report = (swept / "out" / "report.md").read_text()
    assert "times=2, float32" in report
    assert "options" not in report.split("##")[0]


def test_a_run_along_an_axis_of_its_own_is_continued(swept: Path) -> None:
    assert "out: continued; 9 of 9 cases have rows" in harness(swept, "sweep", *_SWEPT)


def test_a_run_is_continued_if_a_default_is_given_and_before_was_not_but_not_with_other_options(
    swept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(swept)
    without = ["--dry-run", *(text for text in _SWEPT if "layer.times" not in text)]
    assert main(["sweep", *without, "options=none,times=3,times=5"]) == 0
    assert "9 cases, 9 finished, 0 left to measure" in capsys.readouterr().out
    assert main(["sweep", *without, "layer.times=2,3,4"]) == 2
    before = "options=times=2,times=3,times=5 before and times=2,times=3,times=4 now"
    assert capsys.readouterr().err.startswith(f"harness: out=out is another sweep ({before}): ")


def test_a_prediction_is_at_any_value(swept: Path) -> None:
    assert "65,536 " in harness(swept, "predict", "out", "seq_len=128", "layer.times=1").replace("FLOPs", "")
    assert "times = 7, batch 1" in harness(swept, "recommend", "out", "seq_len=128", "layer.times=7")


def test_check_judges_exponents_along_an_axis_of_its_own_and_the_cases_of_one_value(swept: Path) -> None:
    harness(swept, "baseline", "out", "-o", "baseline.json")
    was = json.loads((swept / "baseline.json").read_text())
    (flops,) = (name for name in was["laws"] if name.endswith("of=flops"))
    assert was["laws"][flops]["own_exponents"] == {"r": [1.0, 1.0, 1.0]}
    said = harness(swept, "check", "baseline.json", "layer.times=2", "seq_len=16,32", "--exact")
    assert "2 of its 9 cases were chosen" in said
    was["laws"][flops]["own_exponents"] = {"r": [0.5, 0.5, 0.5]}
    for key, facts in was["cases"].items():
        facts["flops"] = facts["flops"] // 2 if "times=5" in key else facts["flops"]
    (swept / "slower.json").write_text(json.dumps(was))
    with pytest.raises(AssertionError, match=r"exponent of flops in r 0\.50 → 1\.00"):
        harness(swept, "check", "slower.json", "--exact")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["layer.tims=3"], "layer.tims: {own} has no option 'tims'; did you mean 'times'?"),
        (
            ["impl=encoder6.fused,rnn.elman", "layer.attention=rnn.elman"],
            "layer.attention: rnn.elman has no option 'attention': measure them apart, or declare "
            "'attention' in the axes of the others",
        ),
    ],
)
def test_layers_without_the_option_end_a_sweep_before_it_measures(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    others = [f"impl={REPEATS}"] if len(given) == 1 else []
    texts = [text.format(own=REPEATS) for text in given]
    assert main(["sweep", "seq_len=16", "d_model=16", "num_heads=1", "--dry-run", *others, *texts]) == 2
    assert capsys.readouterr().err == f"harness: {said.format(own=REPEATS)}\n"
