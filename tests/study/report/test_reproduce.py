"""The command that measures a run again."""

import shlex
from pathlib import Path

import pytest
import yaml

from harness.core.config import compose
from harness.study.report.provenance import reproduce_command

PREFIX = ["python", "-m", "harness", "sweep"]


def again(overrides: list[str]) -> list[str]:
    """The words after `sweep` of the command."""
    words = shlex.split(reproduce_command(yaml.safe_load(compose(overrides, for_sweep=True).record)))
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
def test_it_composes_to_the_same_configuration(overrides: list[str]) -> None:
    first, second = compose(overrides), compose(again(overrides))
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


def test_where_and_how_far_a_run_was_measured_is_left_out() -> None:
    typed = ["out=results/mine", "retry=oom", "launcher=processes", "launcher.time=30", "threads=1", "wait=false"]
    assert again(typed) == ["threads=1"]


def test_a_directory_of_ones_own_is_given_again(tmp_path: Path) -> None:
    (tmp_path / "shape").mkdir()
    (tmp_path / "shape" / "mine.yaml").write_text("# @package _global_\nseq_len: 11\nd_model: 22\nnum_heads: 2\n")
    config = yaml.safe_load(compose(["shape=mine"], tmp_path).record)
    assert shlex.split(reproduce_command(config)) == [*PREFIX, "shape=mine", "--config-dir", str(tmp_path)]


def test_what_a_shell_would_read_is_quoted() -> None:
    typed = ["impl='$(rm -rf ~)',\"a'b\"", "memory_limit=`id`"]
    assert shlex.split(reproduce_command({"overrides": typed})) == [*PREFIX, *typed]


@pytest.mark.parametrize(
    "overrides",
    [
        ["paper=flashattention2", "scale=cpu"],
        ["paper=flashattention1", "scale=full", "seq_len=1024", "dtype=bfloat16"],
        ["points=[{seq_len:512,batch_size:32},{seq_len:1024,batch_size:16}]", "d_model=64"],
    ],
)
def test_a_published_setting_and_points_are_asked_for_as_they_were(overrides: list[str]) -> None:
    first = compose(overrides, for_sweep=True)
    repeated = again(overrides)
    second = compose(repeated, for_sweep=True)
    assert (first.axes, first.points, first.paper) == (second.axes, second.points, second.paper)
    named = [override for override in overrides if override.partition("=")[0] in ("paper", "scale")]
    assert repeated[: len(named)] == named
