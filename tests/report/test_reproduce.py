"""The command that measures a run again."""

import shlex

import pytest
import yaml

from harness.config import compose
from harness.report.provenance import reproduce_command


def again(overrides: list[str]) -> list[str]:
    return shlex.split(reproduce_command(yaml.safe_load(compose(overrides).yaml)))


def test_the_default_sweep_is_the_command_alone() -> None:
    assert reproduce_command(yaml.safe_load(compose([]).yaml)) == "python -m harness sweep"


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
    prefix = ["python", "-m", "harness", "sweep"]
    repeated = again(overrides)
    assert repeated[:4] == prefix
    first, second = compose(overrides), compose(repeated[4:])
    assert (first.axes, first.precision, first.seed, first.memory_limit) == (
        second.axes,
        second.precision,
        second.seed,
        second.memory_limit,
    )


def test_a_named_precision_is_named() -> None:
    assert again(["precision=standard"])[4:] == ["precision=standard"]


def test_where_a_run_was_written_is_left_out() -> None:
    assert again(["out=results/mine"]) == ["python", "-m", "harness", "sweep"]


def test_what_a_shell_would_read_is_quoted() -> None:
    config = yaml.safe_load(compose([]).yaml)
    told = reproduce_command({**config, "impl": ["$(rm -rf ~)", "a'b"], "memory_limit": "`id`"})
    assert "$(rm -rf ~)" in shlex.split(told)[4]
    assert shlex.split(told)[4].startswith("impl='$(rm -rf ~)','a\\'b'")


def test_a_configuration_from_before_there_was_a_key_is_repeated_with_its_default() -> None:
    config = yaml.safe_load(compose(["seq_len=64"]).yaml)
    for key in ("mask", "padding_fraction", "kv_len", "compile_timeout_s"):
        del config[key]
    assert reproduce_command(config) == "python -m harness sweep seq_len=64"


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
    repeated = shlex.split(reproduce_command(yaml.safe_load(first.yaml)))[4:]
    second = compose(repeated, for_sweep=True)
    assert (first.axes, first.points, first.paper) == (second.axes, second.points, second.paper)
    named = [override for override in overrides if override.partition("=")[0] in ("paper", "scale")]
    assert repeated[: len(named)] == named


def test_a_paper_that_is_not_ours_is_named_with_all_that_differs_from_the_default_sweep() -> None:
    config = yaml.safe_load(compose(["impl=rnn.elman"], for_sweep=True).yaml)
    told = shlex.split(reproduce_command({**config, "paper": {"name": "mine", "scale": "full"}}))
    assert told[4:] == ["paper=mine", "scale=full", "impl=rnn.elman", "--config-dir", "DIR"]
