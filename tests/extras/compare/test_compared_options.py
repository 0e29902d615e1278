"""Options of layers in `compare` and `explain`: an own axis that one side lacks, defaults, and mistakes."""

import json
from pathlib import Path

import pandas as pd
import pytest
from extras.compare.repositories import enter

from harness.cli.commands import main
from harness.extras.compare import interleaved

pytestmark = pytest.mark.usefixtures("forked_servers")
SINKS = """\
import torch
from torch.nn.functional import scaled_dot_product_attention


def sinks(q, k, v, window=64, sinks=4):
    at = torch.arange(q.shape[-2])
    near = (at[:, None] - at).abs() < window
    return scaled_dot_product_attention(q, k, v, attn_mask=near | (at < sinks))


sinks.axes = {"window": ("w", 64)}
sinks.reference = sinks
"""
OWN = "./kern.py:sinks"
TINY = ["seq_len=32", "d_model=16", "num_heads=2", "threads=1", "memory_limit=512MiB", "out=found"]
MEASURED_WITHOUT = "harness: sdpa.fused: no option 'window', so measured without it\n"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter(tmp_path, monkeypatch)
    Path("kern.py").write_text(SINKS)
    monkeypatch.setattr(interleaved.Sides, "renew", lambda sides: sides.control.start())
    monkeypatch.setattr(interleaved, "TURN_S", 0.001)
    monkeypatch.setattr(interleaved, "BLOCK_S", 0.016)


@pytest.mark.usefixtures("planted_blocks")
def test_a_layer_without_the_own_axis_is_compared_with_each_value_of_it(capsys: pytest.CaptureFixture) -> None:
    options = ["layer.window=8,64", "threshold=0.5", "blocks=16"]
    status = main(["compare", f"impl={OWN},sdpa.fused", *options, *TINY])
    out, err = capsys.readouterr()
    assert (status, err) == (0, MEASURED_WITHOUT), out
    rows = pd.read_csv("found/comparison.csv", keep_default_na=False)
    assert list(zip(rows.options, rows.base_options, strict=True)) == [("none", "window=8"), ("none", "none")]
    assert list(rows.verdict) == ["equivalent", "equivalent"]
    written = Path("found/comparison.md").read_text()
    assert "sdpa.fused n=32 d=16 h=2 (base: window=8)" in written
    assert "(base: none)" not in written  # 64 is the default


def test_a_layer_without_the_own_axis_is_explained_without_it(capsys: pytest.CaptureFixture) -> None:
    assert main(["explain", "sdpa.fused", OWN, "layer.window=8", *TINY]) == 0
    assert capsys.readouterr().err == MEASURED_WITHOUT
    found = json.loads(Path("found/explain.json").read_text())
    assert [case["options"] for case in found["cases"]] == ["none", "window=8"]
    assert found["title"] == f"{OWN} compared with sdpa.fused: n=32 d=16 h=2 steady window=8"


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (
            [f"impl={OWN}", "side=layer.window=8", "side=layer.windw=16"],
            f"layer.windw: {OWN} has no option 'windw'; did you mean 'window'?",
        ),
        (
            [f"impl={OWN},sdpa.fused", "layer.windw=16"],
            f"layer.windw: {OWN}, sdpa.fused have no option 'windw'; did you mean 'window'?",
        ),
        (
            [f"impl={OWN},sdpa.fused", "layer.sinks=8"],
            "layer.sinks: sdpa.fused has no option 'sinks': measure them apart, or declare 'sinks' in the axes of the "
            "others",
        ),
        (
            [f"impl={OWN}", "side=layer.sinks=8", "side=layer.sinks=8 layer.window=64"],
            f"both sides are the same case, {OWN} n=32 d=16 h=2 steady sinks=8: let another setting differ",
        ),
    ],
)
def test_a_mistaken_option_ends_the_comparison_before_it_measures(
    typed: list[str], message: str, capsys: pytest.CaptureFixture
) -> None:
    assert main(["compare", *typed, *TINY]) == 2
    assert capsys.readouterr() == ("", f"harness: {message}\n")
    assert not Path("found").exists()


PINNED = """\
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def pinned(q, k, v, math=False):
    kernel = SDPBackend.MATH if math else SDPBackend.FLASH_ATTENTION
    with sdpa_kernel(kernel):
        return scaled_dot_product_attention(q, k, v)
"""


@pytest.mark.usefixtures("planted_blocks")
def test_two_sides_of_one_layer_that_run_different_kernels_say_so(capsys: pytest.CaptureFixture) -> None:
    Path("pinned.py").write_text(PINNED)
    sides = ["side=layer.math=False", "side=layer.math=True"]
    main(["compare", "impl=./pinned.py:pinned", *sides, "blocks=16", *TINY])
    said = "./pinned.py:pinned ran flash on the base and math on the head: the times are of different kernels."
    assert said in " ".join(capsys.readouterr().out.split())
    assert said in json.loads(Path("found/comparison.json").read_text())["remarks"]
