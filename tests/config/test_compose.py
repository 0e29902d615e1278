"""The command line's grammar is Hydra's; what is wrong gets one line."""

import os
from pathlib import Path

import pytest

from harness import layer_lookup
from harness.config import compose
from harness.errors import UsageError


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
    assert {name for name in layer_lookup.names() if name.startswith("attention.")} - ladder == {"attention.uncached"}
    with pytest.raises(UsageError, match=r"impl=rnm\.\*: no impl matches; known: rnn.elman, "):
        compose(["impl=rnm.*"])


def test_a_preset_brings_its_own_sizes_unless_others_are_asked_for() -> None:
    assert compose(["preset=ladder"]).axes["d_model"] == (256,)
    assert compose(["preset=ladder", "shape=gpt2"]).axes["d_model"] == (768,)
    assert compose(["preset=ladder", "d_model=64"]).axes["d_model"] == (64,)
    assert compose(["preset=ladder", "impl=rnn.elman"]).axes["impl"] == ("rnn.elman",)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("mask=diagonal", "unknown mask 'diagonal'"),
        ("padding_fraction=1", "padding_fraction=1: it takes a number from 0 and below 1"),
        ("padding_fraction=-0.5", "padding_fraction=-0.5: it takes a number from 0 and below 1"),
        ("kv_len=-1", "kv_len=-1: it takes whole numbers from 0"),
        ("mode=decoding", "unknown mode 'decoding'; did you mean 'decode'"),
    ],
)
def test_what_cannot_stand_on_an_axis_is_told_in_one_line(given: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        compose([given])


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


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seqlen=64", "unknown key 'seqlen'; did you mean 'seq_len'?"),
        ("precision.targt=1", "unknown key 'precision.targt'; did you mean 'precision.target'?"),
        ("impl=atention.fused", "unknown impl 'atention.fused'; did you mean 'attention.fused'?"),
        ("impl=glob(nothing.*)", "no impl matches"),
        ("seq_len=0", "seq_len=0: it takes whole numbers from 1"),
        ("seq_len=-1", "seq_len=-1: it takes whole numbers from 1"),
        ("seq_len=abc", "seq_len=abc: it takes whole numbers"),
        ("seq_len=1e99", "seq_len=1e+99: it takes whole numbers"),
        ("seq_len=true", "seq_len=True: it takes whole numbers"),
        ("seq_len=1.5", "seq_len=1.5: it takes whole numbers"),
        ("seq_len=null", "seq_len=None: it takes whole numbers"),
        ("seq_len={a:1}", "seq_len={'a': 1}: it takes whole numbers"),
        ("seq_len=[]", "seq_len is an empty list"),
        ("seq_len=", "seq_len"),
        ("seq_len=range(1,1000000000)", "more than 100,000 values"),
        ("seq_len=range(1,10,0)", "seq_len"),
        ("seq_len=interval(1,2)", "an interval has no end of values"),
        ("seq_len=(", "cannot read"),
        ("dtype=float31", "unknown dtype 'float31'; did you mean 'float32'?"),
        ("mode=forwards", "unknown mode 'forwards'; did you mean 'forward'?"),
        ("device=gpu", "unknown device 'gpu'"),
        ("device=cpu,gpu", "unknown device 'gpu'"),
        ("precision=qick", "unknown precision 'qick'; did you mean 'quick'?"),
        ("precision=quick,strict", "precision takes one value"),
        ("precision.target=-1", "precision.target=-1: it takes a number above 0"),
        ("precision.target=abc", "precision.target=abc: it takes a number"),
        ("precision.max_rounds=1", "precision.max_rounds=1 is below precision.min_rounds"),
        ("memory_limit=lots", "memory_limit=lots"),
        ("seed=abc", "seed=abc: it takes a whole number"),
        ("seed=null", "seed=null: it takes a whole number"),
        ("seed=${mode}", "seed=${mode}: it takes a whole number"),
        ("seed=${nothing}", "seed=${nothing}: Interpolation key 'nothing' not found"),
        ("compile_timeout_s=soon", "compile_timeout_s=soon: it takes a number"),
        ("memory_limit=[1]", "memory_limit=[1]: give bytes, or a number with KiB"),
        ("precision.max_rounds=1.5", "precision.max_rounds=1.5: it takes a whole number"),
        ("precision.foo=1", "unknown key 'precision.foo'; known: precision.target|min_rounds|max_rounds|trial_s|"),
        ("seed=99999999999999999999", "seed=99999999999999999999: it takes a whole number below 9223372036854775808"),
        ("memory_limit=1", "16MiB at least"),
        ("memory_limit=99999999TiB", "memory_limit=99999999TiB"),
        ("out=a,b", "out takes one value"),
        ("fast", "'fast' is not of the form key=value"),
        ("+new=1", "unknown key 'new'"),
        ("~seq_len", "a sweep needs all its settings"),
    ],
)
def test_bad_input_gets_one_line_that_names_it(override: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        compose([override])
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("wait=maybe", "wait=maybe: it takes true or false"),
        ("launcher.time=soon", "launcher.time=soon: it takes a whole number"),
        ("launcher.cpus_per_task=x", "launcher.cpus_per_task=x: it takes a whole number, or null"),
        ("launcher.setup=3", "launcher.setup=3: it takes a list of texts"),
        ("launcher.partion=x", "unknown key 'launcher.partion'; did you mean 'launcher.partition'?"),
        ("launcher.bogus=1", "unknown key 'launcher.bogus'; known: launcher.cluster|partition|account|time|"),
    ],
)
def test_so_does_what_only_a_sweep_takes(override: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        compose([override], for_sweep=True)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "overrides", [["wait=false"], ["launcher.time=30"], ["launcher.partition=x", "launcher=here"]], ids=" ".join
)
def test_what_is_asked_of_a_cluster_is_refused_where_none_is(overrides: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        compose(overrides, for_sweep=True)
    said = "says how to measure elsewhere: give launcher=slurm or launcher=processes too"
    assert str(caught.value) == f"{overrides[0]} {said}"


@pytest.mark.parametrize(
    "overrides",
    [["wait=true"], ["launcher=here"], ["launcher=processes", "launcher.time=30", "threads=1", "wait=false"]],
    ids=" ".join,
)
def test_and_is_taken_where_one_is_or_where_nothing_is_asked(overrides: list[str]) -> None:
    assert compose(overrides, for_sweep=True).wait is ("wait=false" not in overrides)


def test_a_broken_file_of_ones_own_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "shape").mkdir()
    for name, text in (("broken", "a: ["), ("typo", "# @package _global_\nseqlen: 3\n")):
        (tmp_path / "shape" / f"{name}.yaml").write_text(text)
        with pytest.raises(UsageError) as caught:
            compose([f"shape={name}"], tmp_path)
        assert "\n" not in str(caught.value)
    assert "seqlen" in str(caught.value)


def test_a_directory_of_ones_own_may_have_any_name(tmp_path: Path) -> None:
    odd = tmp_path / "it's [odd], a=b"
    (odd / "shape").mkdir(parents=True)
    (odd / "shape" / "mine.yaml").write_text("# @package _global_\nseq_len: 11\nd_model: 22\nnum_heads: 2\n")
    assert compose(["shape=mine"], odd).axes["seq_len"] == (11,)


def test_a_missing_directory_of_ones_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such directory"):
        compose([], tmp_path / "absent")


def test_more_cases_than_anybody_measures_are_refused_before_they_are_made() -> None:
    with pytest.raises(UsageError, match="cases, more than"):
        compose(["seq_len=range(1,2000)", "d_model=range(1,2000)"])
