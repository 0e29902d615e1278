"""The command that measures a run again."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from harness.core.config import compose
from harness.study.report.provenance import reproduce_command

PREFIX = ["python", "-m", "harness", "sweep"]


def again(overrides: list[str], stored: bool = True) -> list[str]:
    """The words after `sweep` of the command, for a run that stored what was typed or for an older one."""
    config = compose(overrides, for_sweep=True)
    words = shlex.split(reproduce_command(yaml.safe_load(config.record if stored else config.yaml)))
    assert words[:4] == PREFIX
    return words[4:]


def test_the_default_sweep_is_the_command_alone() -> None:
    assert again([]) == []


@pytest.mark.parametrize(
    "overrides",
    [
        ["impl=rnn.elman"],
        ["impl=glob(attention.*)", "seq_len=range(256,2049,256)", "mode=forward,train"],
        ["shape=gpt2", "dtype=float32,bfloat16", "precision=standard"],
        ["precision.trial_s=0.02", "precision.max_rounds=9", "seed=7", "memory_limit=8GiB", "threads=1,2"],
        ["impl=their.module:TheirLayer,attention.fused", "allocator=fresh"],
        ["device=cuda", "precision=strict", "precision.timeout_s=9"],
    ],
)
@pytest.mark.parametrize("stored", [True, False])
def test_it_composes_to_the_same_configuration(overrides: list[str], stored: bool) -> None:
    first, second = compose(overrides), compose(again(overrides, stored))
    assert (first.axes, first.precision, first.seed, first.memory_limit) == (
        second.axes,
        second.precision,
        second.seed,
        second.memory_limit,
    )


def test_what_was_typed_is_repeated_as_it_was() -> None:
    typed = ["impl=glob(attention.w*)", "seq_len=range(256,2049,256)", "shape=gpt2", "layer.reach=16,32"]
    assert again(typed) == typed
    assert again(["n=64", "mask=padding"]) == ["seq_len=64", "mask=padding"]


def test_a_named_precision_is_named() -> None:
    assert again(["precision=standard"], stored=False)[-1] == "precision=standard"


def test_where_and_how_far_a_run_was_measured_is_left_out() -> None:
    typed = ["out=results/mine", "retry=oom", "launcher=processes", "launcher.time=30", "threads=1", "wait=false"]
    for stored in (True, False):
        assert not {"out", "retry", "launcher", "wait"} & {re.split("[.=]", text)[0] for text in again(typed, stored)}


def test_a_directory_of_ones_own_is_given_again(tmp_path: Path) -> None:
    (tmp_path / "shape").mkdir()
    (tmp_path / "shape" / "mine.yaml").write_text("# @package _global_\nseq_len: 11\nd_model: 22\nnum_heads: 2\n")
    config = yaml.safe_load(compose(["shape=mine"], tmp_path).record)
    assert shlex.split(reproduce_command(config)) == [*PREFIX, "shape=mine", "--config-dir", str(tmp_path)]


def test_what_a_shell_would_read_is_quoted() -> None:
    config = yaml.safe_load(compose([]).yaml)
    told = reproduce_command({**config, "impl": ["$(rm -rf ~)", "a'b"], "memory_limit": "`id`"})
    assert "$(rm -rf ~)" in shlex.split(told)[4]
    assert shlex.split(told)[4].startswith("impl='$(rm -rf ~)','a\\'b'")


def test_a_configuration_from_before_there_was_a_key_is_repeated_with_its_default() -> None:
    config = yaml.safe_load(compose(["seq_len=64"]).yaml)
    for key in ("mask", "padding_fraction", "kv_len", "compile_timeout_s"):
        del config[key]
    repeated = shlex.split(reproduce_command(config))[4:]
    assert "seq_len=64" in repeated
    assert not any(word.startswith(("mask=", "padding_fraction=", "kv_len=")) for word in repeated)
    assert compose(repeated).axes == compose(["seq_len=64"]).axes


@pytest.mark.parametrize(
    "overrides",
    [
        ["paper=flashattention2", "scale=cpu"],
        ["paper=flashattention1", "scale=full", "seq_len=1024", "dtype=bfloat16"],
        ["points=[{seq_len:512,batch_size:32},{seq_len:1024,batch_size:16}]", "d_model=64"],
    ],
)
@pytest.mark.parametrize("stored", [True, False])
def test_a_published_setting_and_points_are_asked_for_as_they_were(overrides: list[str], stored: bool) -> None:
    first = compose(overrides, for_sweep=True)
    repeated = again(overrides, stored)
    second = compose(repeated, for_sweep=True)
    assert (first.axes, first.points, first.paper) == (second.axes, second.points, second.paper)
    named = [override for override in overrides if override.partition("=")[0] in ("paper", "scale")]
    assert repeated[: len(named)] == named


def test_a_paper_that_is_not_ours_is_named_with_what_the_user_changed() -> None:
    config = yaml.safe_load(compose([], for_sweep=True).yaml)
    paper = {"name": "mine", "scale": "full", "changed": ["impl=rnn.elman"]}
    told = shlex.split(reproduce_command({**config, "paper": paper}))
    assert told[4:] == ["paper=mine", "scale=full", "impl=rnn.elman", "precision=quick", "--config-dir", "DIR"]
