"""`python -m harness list` of a user's own layer or function: its axes, letters, claims, shapes and reference."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.cli.commands import main
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.core.trial.described_layer import describe_page

OWN = Path(__file__).parents[1] / "own_layer"


def page_of(name: str) -> dict[str, Any]:
    return describe_page(Case(f"{OWN}/{name}", 64, 64, 4))


def test_the_page_of_a_function_has_its_axis_with_its_letter_and_its_claims(capsys: pytest.CaptureFixture) -> None:
    assert main(["list", f"impl={OWN}/functions.py:windowed"]) == 0
    page = capsys.readouterr().out
    assert "layer.window=…, by default 4; letter w in claims and shapes" in " ".join(page.split())
    assert "4nwd" in page
    assert "windowed(q, k, v, window=4)" in page
    assert main(["list", f"{OWN}/functions.py:windowed", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["axes"] == [["window", "w", 4]]
    assert found["reference"].endswith("functions.py:_windowed_by_mask")
    assert found.keys() >= {"name", "family", "claims", "has_heads", "modes", "masks", "takes", "causal", "package"}


def test_the_page_tells_own_axes_from_further_options() -> None:
    page = page_of("repeats.py:Repeats")
    assert (page["axes"], page["options"]) == ([["times", "r", 2]], [["rounds", 1]])


def test_a_layer_that_cannot_be_loaded_is_refused_in_a_line(capsys: pytest.CaptureFixture) -> None:
    assert main(["list", f"{OWN}/functions.py:window"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "did you mean 'windowed'?" in err


def test_the_shapes_and_values_of_described_inputs_are_told() -> None:
    page = page_of("functions.py:decay")
    assert ["dt", "(b, n, h)", "positive"] in page["inputs"]
    assert page["inputs"][-1] == ["output", "(b, n, h, D)", ""]
    assert page["masks"] == ["none", "causal", "padding"]
    assert page["modes"] == ["forward", "train", "backward"]
    assert page["reference"] == "itself in float64"


def test_what_a_function_supports_follows_from_its_parameters() -> None:
    page = page_of("functions.py:attention")
    assert page["masks"] == ["none", "causal"]
    assert page["modes"][-1] == "decode"
    assert page["takes"] == ["kv_len", "num_kv_heads"]
    assert page["reference"] == "impls.attention.reference:softmax_attention"


def test_a_class_has_a_page_too() -> None:
    page = page_of("averaging_more.py:Averaging")
    assert page["call"] == "Averaging(d_model)"
    assert not page["has_heads"]
    assert page["claims"]["work_decode"] == "2d²"
    assert page["reference"].endswith("averaging_more.py:AveragingReference")
    assert page["place"].endswith("averaging_more.py:22")


def test_a_wrong_claim_is_told(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def f(q, k, v):\n    return v\n\n\nf.claims = {'werk': '4n²d'}\n")
    with pytest.raises(UsageError, match="unknown claim 'werk'; did you mean 'work'"):
        describe_page(Case(f"{tmp_path}/mine.py:f", 64, 64, 4))
