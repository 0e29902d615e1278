"""The command line's grammar is Hydra's; what is wrong gets one line."""

import os
from pathlib import Path

import pytest
from syrupy import SnapshotAssertion

from harness.core.config import compose
from harness.core.model.errors import UsageError
from impls.registry import IMPLS


def test_the_defaults_are_the_default_sweep() -> None:
    config = compose([])
    assert config.axes["seq_len"] == (64, 128, 256, 512, 1024, 2048)
    assert config.axes["d_model"] == (128, 256)
    assert config.axes["num_heads"] == (2, 8)
    assert len(config.axes["impl"]) == 5
    assert config.axes["threads"] == (len(os.sched_getaffinity(0)),)
    assert (config.axes["mode"], config.axes["dtype"], config.axes["device"]) == (("forward",), ("float32",), ("cpu",))


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("seq_len=128", (128,)),
        ("seq_len=128,256", (128, 256)),
        ("seq_len=[128,256]", (128, 256)),
        ("seq_len=[128,256],[512]", (128, 256, 512)),
        ("seq_len=range(128,1024,128)", tuple(range(128, 1024, 128))),
        ("seq_len=128,64,128", (128, 64)),
        ("seq_len=sort(256,128)", (128, 256)),
    ],
)
def test_hydras_sweep_grammar_works_on_an_axis(override: str, expected: tuple) -> None:
    assert compose([override]).axes["seq_len"] == expected


def test_glob_chooses_among_the_impls() -> None:
    names = compose(["impl=glob(attention.linear.*,exclude=*fla)"]).axes["impl"]
    assert names == ("attention.linear.parallel", "attention.linear.recurrent", "attention.linear.chunked")
    assert compose(["impl=glob(rnn.*,exclude=rnn.*.*)"]).axes["impl"][:3] == ("rnn.elman", "rnn.torch", "rnn.gru")
    assert compose(["impl=glob(attention.naive),my.module:Layer"]).axes["impl"] == (
        *("attention.naive", "my.module:Layer"),
    )


def test_a_star_in_a_name_chooses_as_a_glob_does_on_the_command_line_and_in_a_preset() -> None:
    assert compose(["impl=rnn.gru*"]).axes["impl"] == ("rnn.gru", "rnn.gru.torch")
    ladder = set(compose(["preset=ladder"]).axes["impl"])
    assert {"rnn.elman", "attention.window", "conv.conv1d"} < ladder
    assert {name for name in IMPLS if name.startswith("attention.")} - ladder == {"attention.uncached"}
    with pytest.raises(UsageError, match=r"impl=rnm\.\*: no impl matches; did you mean 'rnn\.\*'"):
        compose(["impl=rnm.*"])


def test_a_preset_brings_its_own_sizes_unless_others_are_asked_for() -> None:
    assert compose(["preset=ladder"]).axes["d_model"] == (256,)
    assert compose(["preset=ladder", "shape=gpt2"]).axes["d_model"] == (768,)
    assert compose(["preset=ladder", "d_model=64"]).axes["d_model"] == (64,)
    assert compose(["preset=ladder", "impl=rnn.elman"]).axes["impl"] == ("rnn.elman",)


@pytest.mark.parametrize("preset", ["default", "ladder", "linear_time"])
def test_a_preset_has_the_sizes_of_a_gpu_on_a_gpu(preset: str) -> None:
    axes = compose([f"preset={preset}", "device=cuda"]).axes
    assert axes["impl"] == compose([f"preset={preset}"]).axes["impl"]
    assert (axes["seq_len"][-1], axes["d_model"], axes["batch_size"]) == (8192, (1024, 2048), (4,))
    assert compose([f"preset={preset}", "device=cuda", "shape=gpt2"]).axes["d_model"] == (768,)
    assert compose([f"preset={preset}", "device=cuda", "seq_len=64"]).axes["seq_len"] == (64,)


def test_a_preset_of_ones_own_keeps_its_sizes_on_a_gpu(tmp_path: Path) -> None:
    (tmp_path / "preset").mkdir()
    own = "# @package _global_\ndefaults:\n  - override /shape: ladder\nimpl: rnn.elman\nseq_len: 11\n"
    (tmp_path / "preset" / "mine.yaml").write_text(own)
    axes = compose(["preset=mine", "device=cuda"], tmp_path).axes
    assert (axes["seq_len"], axes["d_model"], axes["batch_size"]) == ((11,), (256,), (1,))


def test_the_linear_time_preset_holds_each_layer_with_a_matrix_state_in_chunks_beside_attention() -> None:
    axes = compose(["preset=linear_time"]).axes
    family = {name for name in IMPLS if name.startswith("linear.") and name.endswith(".chunked")}
    assert len(family) >= 4
    assert family | {"attention.fused", "attention.linear.chunked"} < set(axes["impl"])
    assert axes["seq_len"] == (256, 512, 1024, 2048, 4096)


def test_somebodys_own_layer_may_stand_beside_ours() -> None:
    assert compose(["impl=my.module:Layer,rnn.elman"]).axes["impl"] == ("my.module:Layer", "rnn.elman")


@pytest.mark.parametrize(
    ("shape", "n", "d", "h"),
    [
        ("bert_base", 512, 768, 12),
        ("gpt2", 1024, 768, 12),
        ("vit_b16", 197, 768, 12),
        ("transformer_base", 128, 512, 8),
    ],
)
def test_a_shape_is_a_real_layers(shape: str, n: int, d: int, h: int) -> None:
    axes = compose([f"shape={shape}"]).axes
    assert (axes["seq_len"], axes["d_model"], axes["num_heads"]) == ((n,), (d,), (h,))


def test_an_override_wins_over_the_shape_whichever_comes_first() -> None:
    axes = compose(["seq_len=7", "shape=llama_7b"]).axes
    assert (axes["seq_len"], axes["d_model"], axes["num_heads"]) == ((7,), (4096,), (32,))


def test_precision_is_a_group_and_its_numbers_can_be_set() -> None:
    precision = compose(["precision=strict", "precision.max_rounds=99"]).precision
    assert (precision.target, precision.max_rounds) == (0.01, 99)


def test_a_directory_of_ones_own_adds_to_the_groups(tmp_path: Path) -> None:
    (tmp_path / "shape").mkdir()
    (tmp_path / "shape" / "mine.yaml").write_text("# @package _global_\nseq_len: 11\nd_model: 22\nnum_heads: 2\n")
    axes = compose(["shape=mine"], tmp_path).axes
    assert (axes["seq_len"], axes["d_model"]) == ((11,), (22,))


@pytest.mark.parametrize(("text", "number"), [("8GiB", 2**33), ("1.5GiB", 3 * 2**29), ("67108864", 2**26)])
def test_a_memory_limit_has_a_unit_or_is_in_bytes(text: str, number: int) -> None:
    assert compose([f"memory_limit={text}"]).memory_limit == number


WRONG = [
    *("lengths=zipff batch_size=2", "lengths=zipf", "lengths=zipf:x batch_size=2"),
    "lengths=zipf batch_size=2 mask=padding padding_fraction=0.5",
    *("mask=diagonal", "padding_fraction=1", "padding_fraction=-0.5", "kv_len=-1", "mode=decoding"),
    *("seqlen=64", "precision.targt=1", "impl=atention.fused", "impl=glob(nothing.*)", "seq_len=0"),
    *("seq_len=-1", "seq_len=abc", "seq_len=1e99", "seq_len=true", "seq_len=1.5", "seq_len=null"),
    *("seq_len={a:1}", "seq_len=[]", "seq_len=", "seq_len=range(1,1000000000)", "seq_len=range(1,10,0)"),
    *("seq_len=interval(1,2)", "seq_len=(", "dtype=float31", "mode=forwards", "device=tpu", "device=cpu,tpu"),
    *("precision=qick", "precision=quick,strict", "precision.target=-1", "precision.target=abc"),
    *("precision.max_rounds=1", "memory_limit=lots", "seed=abc", "seed=null", "seed=${mode}"),
    *("seed=${nothing}", "compile_timeout_s=soon", "memory_limit=[1]", "precision.max_rounds=1.5"),
    *("precision.foo=1", "seed=99999999999999999999", "memory_limit=1", "memory_limit=99999999TiB", "out=a,b"),
    *("fast", "+new=1", "~seq_len"),
]
WRONG_FOR_A_SWEEP = [
    *("wait=maybe", "launcher.time=soon", "launcher.cpus_per_task=x", "launcher.setup=3", "launcher.partion=x"),
    *("launcher.bogus=1", "wait=false", "launcher.time=30", "launcher.partition=x launcher=here"),
]


def test_bad_input_gets_one_line_that_names_it(snapshot: SnapshotAssertion) -> None:
    told = []
    for overrides in (*WRONG, *WRONG_FOR_A_SWEEP):
        with pytest.raises(UsageError) as caught:
            compose(overrides.split(), for_sweep=overrides in WRONG_FOR_A_SWEEP)
        assert "\n" not in str(caught.value)
        told.append(f"{overrides}\n  {caught.value}\n")
    assert "".join(told) == snapshot


@pytest.mark.parametrize(
    "overrides",
    [["wait=true"], ["launcher=here"], ["launcher=processes", "launcher.time=30", "threads=1", "wait=false"]],
    ids=" ".join,
)
def test_what_is_asked_of_a_cluster_is_taken_where_one_is_or_where_nothing_is_asked(overrides: list[str]) -> None:
    assert compose(overrides, for_sweep=True).wait is ("wait=false" not in overrides)


def test_a_directory_of_ones_own_may_have_any_name(tmp_path: Path) -> None:
    odd = tmp_path / "it's [odd], a=b"
    (odd / "shape").mkdir(parents=True)
    (odd / "shape" / "mine.yaml").write_text("# @package _global_\nseq_len: 11\nd_model: 22\nnum_heads: 2\n")
    assert compose(["shape=mine"], odd).axes["seq_len"] == (11,)


def test_more_cases_than_anybody_measures_are_refused_before_they_are_made() -> None:
    with pytest.raises(UsageError, match="cases, more than"):
        compose(["seq_len=range(1,2000)", "d_model=range(1,2000)"])


def test_sizes_are_taken_by_the_letters_that_every_output_prints(capsys: pytest.CaptureFixture) -> None:
    given = compose(["n=64,128", "d=32", "h=range(1,5)", "b=2"])
    wanted = compose(["seq_len=64,128", "d_model=32", "num_heads=range(1,5)", "batch_size=2"])
    assert given.axes == wanted.axes
    assert compose(["points=[{n:512,b:32}]"], for_sweep=True).points == ({"seq_len": 512, "batch_size": 32},)
    assert capsys.readouterr().err == ""
