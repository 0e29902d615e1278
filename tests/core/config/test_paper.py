"""A published setting is asked for by name, at its own sizes or at a smaller scale."""

from pathlib import Path

import pytest
import yaml

from harness.core.config import compose
from harness.core.model.errors import UsageError


def test_a_paper_is_measured_at_its_own_sizes_unless_a_scale_is_asked_for() -> None:
    full = compose(["paper=flashattention1"], for_sweep=True)
    assert full.axes["batch_size"] == (16,)
    assert (full.axes["device"], full.axes["dtype"], full.paper["scale"]) == (("cuda",), ("float16",), "full")
    small = compose(["paper=flashattention1", "scale=cpu"], for_sweep=True)
    assert small.axes["batch_size"] == (1,)
    assert (small.axes["device"], small.axes["dtype"], small.paper["scale"]) == (("cpu",), ("float32",), "cpu")
    assert small.axes["seq_len"] == full.axes["seq_len"]


def test_what_is_asked_for_beside_it_stands() -> None:
    config = compose(["paper=flashattention2", "scale=cpu", "seq_len=512", "mask=causal"], for_sweep=True)
    assert config.points == ({"seq_len": 512, "batch_size": 8},)
    assert config.axes["mask"] == ("causal",)


def test_the_configuration_holds_what_is_published() -> None:
    config = compose(["scale=cpu", "paper=mingru2024"], for_sweep=True)
    assert yaml.safe_load(config.yaml)["paper"] == config.paper
    assert config.paper["tables"][0]["rows"] == {"rnn.gru / rnn.mingru.parallel": [175]}
    assert compose([], for_sweep=True).paper == {}


def test_what_was_asked_for_otherwise_is_kept() -> None:
    typed = ["paper=mingru2024", "scale=cpu", "seq_len=16", "seed=3"]
    assert yaml.safe_load(compose(typed, for_sweep=True).record)["overrides"] == typed


def test_a_file_that_is_no_papers_says_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "paper").mkdir()
    (tmp_path / "paper" / "mine.yaml").write_text("# @package _global_\nseq_len: 8\n")
    with pytest.raises(UsageError, match="paper=mine: its file must begin with"):
        compose(["paper=mine"], tmp_path, for_sweep=True)


def test_a_paper_of_ones_own_lies_in_a_directory_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "paper" / "mine").mkdir(parents=True)
    (tmp_path / "paper" / "mine.yaml").write_text(
        "# @package _global_\ndefaults: [_self_, {mine@_global_: full}]\nimpl: rnn.elman\npaper: {name: mine}\n"
    )
    for scale, n in (("full", 512), ("cpu", 8)):
        text = f"# @package _global_\nseq_len: {n}\npaper: {{scale: {scale}}}\n"
        (tmp_path / "paper" / "mine" / f"{scale}.yaml").write_text(text)
    assert compose(["paper=mine"], tmp_path, for_sweep=True).axes["seq_len"] == (512,)
    config = compose(["paper=mine", "scale=cpu"], tmp_path, for_sweep=True)
    assert (config.axes["seq_len"], config.paper) == ((8,), {"name": "mine", "scale": "cpu"})
