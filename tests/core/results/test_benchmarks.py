"""Somebody's pytest-benchmark JSON becomes lines, or one line says why not."""

import json
from pathlib import Path
from typing import Any

import pytest

from harness.core.model.errors import UsageError
from harness.core.results.stored_run import read_run_directory


def benchmark(name: str = "test_layer[64]", seq_len: Any = 64, least: float = 1.0, **said: Any) -> dict[str, Any]:
    axes = {"seq_len": seq_len, **said} if seq_len is not None else said
    return {"name": name, "params": None, "extra_info": axes, "stats": {"min": least, "median": 1.25 * least}}


def write(path: Path, *benchmarks: Any, version: Any = "5.3.1", **more: Any) -> Path:
    path = path / "x.json"
    path.write_text(json.dumps({"benchmarks": list(benchmarks), "version": version, **more}))
    return path


def test_a_length_in_the_extra_info_is_enough(tmp_path: Path) -> None:
    (line,) = read_run_directory(write(tmp_path, benchmark())).lines
    assert (line.impl, line.family, line.seq_len, line.d_model) == ("layer", "layer", 64, 1)
    assert (line.time_s, line.time_median_s, line.trials, line.status) == (1.0, 1.25, 1, "ok")
    assert line.tokens_per_s == 64


def test_the_interval_goes_as_far_down_as_the_median_lies_above(tmp_path: Path) -> None:
    stored = read_run_directory(write(tmp_path, benchmark()))
    assert (stored.lines[0].time_lo_s, stored.lines[0].time_hi_s) == (0.8, 1.25)
    assert stored.notices == [
        "the intervals of 1 benchmark come from the rounds of one process; other processes may differ by more"
    ]


def test_a_single_round_says_nothing_of_the_spread(tmp_path: Path) -> None:
    one = benchmark()
    one["stats"]["median"] = one["stats"]["min"]
    (line,) = read_run_directory(write(tmp_path, one)).lines
    assert (line.time_lo_s, line.time_hi_s) == (0, None)


def test_all_columns_of_the_summary_are_read(tmp_path: Path) -> None:
    said = {"impl": "my:Layer", "d_model": 128, "mode": "train", "peak_bytes": 2**60 + 1, "host_bound": False}
    plain = benchmark(name="test_other[64]")
    lines = read_run_directory(write(tmp_path, benchmark(**said, other="thing"), plain)).lines
    assert {name: getattr(lines[0], name) for name in said} == said
    assert (lines[1].impl, lines[1].peak_bytes) == ("other", None)


def test_axes_may_stand_in_the_parameters_of_the_test(tmp_path: Path) -> None:
    one = {**benchmark(seq_len=None), "params": {"seq_len": 32, "colour": "red"}}
    assert read_run_directory(write(tmp_path, one)).lines[0].seq_len == 32


def test_parameters_that_contradict_the_extra_info_are_named(tmp_path: Path) -> None:
    contradiction = {**benchmark(seq_len=64), "params": {"seq_len": 7}}
    notices = read_run_directory(write(tmp_path, contradiction, benchmark(seq_len=128))).notices
    assert notices[0].endswith("its parameter says seq_len=7, and its extra_info seq_len=64")


def test_a_notice_writes_invisible_characters_out(tmp_path: Path) -> None:
    one = {**benchmark(impl="evil\x1b[31mred"), "params": {"impl": "own"}}
    notice = read_run_directory(write(tmp_path, one, benchmark(seq_len=128))).notices[0]
    assert "extra_info impl='evil\\x1b[31mred'" in notice


def test_a_notice_tells_text_from_the_same_number(tmp_path: Path) -> None:
    one = {**benchmark(seq_len="64"), "params": {"seq_len": 64}}
    notice = read_run_directory(write(tmp_path, one, benchmark(seq_len=128))).notices[0]
    assert notice.endswith("its parameter says seq_len=64, and its extra_info seq_len='64'")


def test_a_time_of_its_own_goes_before_the_rounds(tmp_path: Path) -> None:
    stored = read_run_directory(write(tmp_path, benchmark(time_s=0.5, time_lo_s=0.4, time_hi_s=0.6, trials=4)))
    (line,) = stored.lines
    assert (line.time_s, line.time_lo_s, line.time_hi_s, line.trials) == (0.5, 0.4, 0.6, 4)
    assert stored.notices == []


@pytest.mark.parametrize("said", [{"time_s": 0.5}, {"time_s": 0.5, "time_hi_s": 9.0}, {"time_lo_s": 0.5}])
def test_a_number_that_the_benchmark_calls_time_s_without_an_interval_is_not_the_time(
    tmp_path: Path, said: dict[str, float]
) -> None:
    stored = read_run_directory(write(tmp_path, benchmark(**said)))
    (line,) = stored.lines
    assert (line.time_s, line.time_lo_s, line.time_hi_s) == (1.0, 0.8, 1.25)
    assert "rounds" in stored.notices[0]


def test_benchmarks_without_axes_are_counted_and_left_out(tmp_path: Path) -> None:
    stored = read_run_directory(write(tmp_path, benchmark(), benchmark(seq_len=None), benchmark(seq_len=None)))
    assert len(stored.lines) == 1
    assert stored.notices[0] == "2 benchmarks without a seq_len in extra_info left out"


def test_a_benchmark_that_cannot_be_read_is_named_and_left_out(tmp_path: Path) -> None:
    short = {**benchmark("test_layer[short]", seq_len=None), "params": {"seq_len": "short"}}
    stored = read_run_directory(write(tmp_path, benchmark(), short, benchmark(seq_len=None)))
    assert [line.seq_len for line in stored.lines] == [64]
    assert stored.notices[:2] == [
        "left out: test_layer[short]: seq_len='short' is not a whole number from 1 on",
        "1 benchmark without a seq_len in extra_info left out",
    ]


@pytest.mark.parametrize(
    ("stats", "message"),
    [
        ({"min": 2.0, "median": 1.5}, "stats: min q1 median q3 max must not fall: [2.0, 1.5, inf]"),
        ({"median": 1.5, "max": 1.25}, "stats: min q1 median q3 max must not fall: [1.0, 1.5, 1.25]"),
        ({"q1": 1.5, "q3": 1.125}, "stats: min q1 median q3 max must not fall: [1.0, 1.5, 1.25, 1.125, inf]"),
        ({"q1": 0.5}, "stats: min q1 median q3 max must not fall: [1.0, 0.5, 1.25, inf]"),
        ({"mean": 0.5}, "stats: min mean max must not fall: [1.0, 0.5, inf]"),
        ({"mean": 3.0, "max": 2.0}, "stats: min mean max must not fall: [1.0, 3.0, 2.0]"),
        ({"iqr": -0.1}, "stats: iqr is -0.1, not greater than or equal to 0"),
        ({"q3": float("nan")}, "stats: q3 is nan, not a finite number"),
        ({"max": float("nan")}, "stats: max is nan, not greater than 0"),
        ({"stddev": -0.1}, "stats: stddev is -0.1, not greater than or equal to 0"),
        ({"stddev": float("nan")}, "stats: stddev is nan, not a finite number"),
        ({"stddev": float("inf")}, "stats: stddev is inf, not a finite number"),
        ({"rounds": 0}, "stats: rounds is 0, not greater than or equal to 1"),
    ],
)
def test_impossible_rounds_are_named_and_cost_no_other_benchmark(tmp_path: Path, stats: dict, message: str) -> None:
    bad = benchmark("test_bad")
    bad["stats"] |= stats
    stored = read_run_directory(write(tmp_path, bad, benchmark(seq_len=128)))
    assert [line.seq_len for line in stored.lines] == [128]
    assert stored.notices[0] == f"left out: test_bad: {message}"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"mode": "xx"}, "mode=xx is no value of mode"),
        ({"dtype": "int3"}, "dtype=int3 is no value of dtype"),
        ({"device": "cpu:1"}, "device=cpu:1 is no value of device"),
        ({"mask": ""}, "mask= is no value of mask"),
        (
            {"options": "window"},
            "options=window: it takes name=value, as layer.window=64 or options=page_size=16+window=64",
        ),
        ({"seq_len": 0}, "seq_len=0 is not a whole number from 1 on"),
        ({"seq_len": 10**10}, "seq_len=10000000000 is no value of seq_len"),
        ({"d_model": -8}, "d_model=-8 is not a whole number from 1 on"),
        ({"kv_len": -1}, "kv_len=-1 is not a whole number from 0 on"),
        ({"padding_fraction": 1.5}, "padding_fraction=1.5 is no value of padding_fraction"),
        ({"trials": 0}, "its time is of no trials"),
        ({"peak_bytes": -4}, "peak_bytes=-4 is not a whole number from 0 on"),
        ({"steal_share": -0.5}, "steal_share=-0.5 is not a number from 0 to 1"),
        ({"time_s": -1.0, "time_lo_s": 0.5}, "time_s=-1.0 is not a time in seconds from 1e-15 on"),
        ({"time_s": 1.0, "time_lo_s": 2.0, "time_hi_s": 3.0}, "time_s=1.0 is not within 2.0 to 3.0"),
        ({"time_s": 4.0, "time_lo_s": 0.0, "time_hi_s": 3.0}, "time_s=4.0 is not within 0.0 to 3.0"),
        ({"status": "oom"}, "it has a time and status=oom"),
        ({"flops": 3, "flops_full": 2}, "its flops is more than its flops_full"),
        ({"impl": ""}, "impl= is no value of impl"),
        ({"d_model": 32, "num_heads": 5}, "d_model=32 is not divisible by num_heads=5"),
        (
            {"d_model": 32, "num_heads": 8, "num_kv_heads": 3},
            "num_heads=8 is not divisible by num_kv_heads=3",
        ),
    ],
)
def test_impossible_values_are_named_and_cost_no_other_benchmark(tmp_path: Path, said: dict, message: str) -> None:
    path = write(tmp_path, benchmark("test_bad", **said), benchmark(seq_len=128, device="cuda:1", transient_bytes=-4))
    stored = read_run_directory(path)
    assert [(line.seq_len, line.device, line.transient_bytes) for line in stored.lines] == [(128, "cuda:1", -4)]
    assert stored.notices[0] == f"left out: test_bad: {message}"


def test_the_machine_is_what_the_file_tells(tmp_path: Path) -> None:
    info = {"node": "vm", "system": "Linux", "release": "6.1", "cpu": {"brand_raw": "EPYC", "count": 2}}
    path = write(tmp_path, benchmark(), machine_info=info, commit_info={"id": "abc", "dirty": True})
    assert read_run_directory(path).machine == {
        "host": "vm",
        "cpu": {"model": "EPYC", "threads": 2},
        "kernel": "Linux 6.1",
        "user_commit": "abc-dirty",
    }


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"seq_len": "64"}, "test_layer[64]: seq_len='64' is not a whole number from 1 on"),
        ({"seq_len": 1.5}, "seq_len=1.5 is not a whole number from 1 on"),
        ({"seq_len": True}, "seq_len=True is not a whole number from 1 on"),
        ({"seq_len": 2**70}, "seq_len=1180591620717411303424 is not a whole number from 1 on"),
        ({"flops": 2**63}, "flops=9223372036854775808 is not a whole number from 0 on"),
        ({"output_error": 10**400}, "is not a number from 0 on"),
        ({"impl": ["a"]}, "impl=['a'] is not a text"),
        ({"mode": 3}, "mode=3 is no value of mode"),
        ({"host_bound": 1}, "host_bound=1 is not true or false"),
        ({"least": 0.0}, "test_layer[64]: stats: min is 0.0, not greater than 0"),
        ({"least": float("nan")}, "test_layer[64]: stats: min is nan, not greater than 0"),
        ({"time_s": -1.0, "time_lo_s": 0.5}, "time_s=-1.0 is not a time"),
    ],
)
def test_what_cannot_be_is_named_in_one_line(tmp_path: Path, said: dict, message: str) -> None:
    path = write(tmp_path, benchmark(**said))
    with pytest.raises(UsageError) as error:
        read_run_directory(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_several_benchmarks_of_one_case_are_not_made_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"x\.json: test_layer\[64\]: several rows are of layer n=64"):
        read_run_directory(write(tmp_path, benchmark(), benchmark()))


@pytest.mark.parametrize("copies", [(1.0, 1.0), (1.0, 2.0), (1.0, 2.0, 1.0)], ids=str)
@pytest.mark.parametrize("is_first", [True, False])
def test_several_benchmarks_of_one_case_are_named_and_cost_no_other(
    tmp_path: Path, copies: tuple[float, ...], is_first: bool
) -> None:
    several = [benchmark(f"test_layer[{number}]", least=least) for number, least in enumerate(copies)]
    others = [benchmark("test_layer[128]", 128), benchmark("test_layer[own]", 256, time_s=9.0, time_lo_s=8.0)]
    stored = read_run_directory(write(tmp_path, *([*several, *others] if is_first else [*others, *several])))
    assert [(line.seq_len, line.time_s) for line in stored.lines] == [(128, 1.0), (256, 9.0)]
    why = "several rows are of layer n=64 d=1 h=1: keep one of them, chosen by the other columns"
    assert stored.notices == [
        *(f"left out: test_layer[{number}]: {why}" for number in range(1, len(copies))),
        "the intervals of 1 benchmark come from the rounds of one process; other processes may differ by more",
    ]


def test_a_bad_benchmark_costs_no_good_one_of_the_same_case(tmp_path: Path) -> None:
    stored = read_run_directory(write(tmp_path, benchmark(), benchmark("test_bad", flops=3, flops_full=2)))
    assert [line.seq_len for line in stored.lines] == [64]
    assert stored.notices[0] == "left out: test_bad: its flops is more than its flops_full"


@pytest.mark.parametrize(
    ("said", "tokens_per_s", "reason"),
    [
        ({"seq_len": 64}, 64.0, "64 tokens in 1 s"),
        ({"batch_size": 2}, 128.0, "twice as many"),
        ({"tokens_per_s": 3.0}, 64.0, "what is stated contradicts the time"),
        ({"batch_size": 2, "mode": "decode"}, 2.0, "one token for each sequence"),
        ({"batch_size": 2, "mask": "padding"}, None, "how many tokens are padding is unknown"),
        ({"batch_size": 2, "mask": "padding", "real_tokens": 96}, 96.0, "padding is no token"),
        ({"batch_size": 2, "lengths": "zipf", "real_tokens": 96}, 96.0, "padding is no token"),
    ],
    ids=str,
)
def test_tokens_a_second_follow_from_the_time(tmp_path: Path, said: dict, tokens_per_s: float, reason: str) -> None:
    (line,) = read_run_directory(write(tmp_path, benchmark(**said))).lines
    assert line.tokens_per_s == tokens_per_s, reason


def test_heads_without_a_width_are_no_contradiction(tmp_path: Path) -> None:
    (line,) = read_run_directory(write(tmp_path, benchmark(num_heads=8))).lines
    assert (line.num_heads, line.time_s) == (8, 1.0)


def test_a_number_that_is_none_is_not_there(tmp_path: Path) -> None:
    assert read_run_directory(write(tmp_path, benchmark(flops=float("nan"), depth=None))).lines[0].flops is None


def test_text_that_no_file_can_hold_is_made_such_that_one_can(tmp_path: Path) -> None:
    assert read_run_directory(write(tmp_path, benchmark(impl="a\ud800b"))).lines[0].impl == "a?b"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not whole JSON"),
        ('{"benchmarks": [', "is not whole JSON"),
        ("[" * 100_000, "is not whole JSON"),
        ("\xff\xfe", "is not whole JSON"),
        ("[]", "is not a pytest-benchmark file: write one with --benchmark-json=x.json"),
        ('{"benchmarks": []}', "is not a pytest-benchmark file"),
        ('{"benchmarks": {}, "version": "5.0"}', "is not a pytest-benchmark file"),
        ('{"benchmarks": [3], "version": "5.0"}', "(benchmarks: 1 is 3, not a valid dictionary)"),
        ('{"benchmarks": [], "version": "6.0.0"}', "version: '6.0.0': only versions 3 to 5"),
        ('{"benchmarks": [], "version": "2.5"}', "only versions 3 to 5"),
        ('{"benchmarks": [], "version": "5.0"}', "no benchmark says its seq_len in extra_info"),
        ('{"benchmarks": [{"stats": 3, "extra_info": 3}], "version": "5.0"}', "benchmarks: 1: extra_info is 3"),
        (
            '{"benchmarks": [{"extra_info": {"seq_len": 8}}], "version": "5.0"}',
            "a benchmark without a name: stats is",
        ),
    ],
)
def test_what_is_no_such_file_is_one_line(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(UsageError) as error:
        read_run_directory(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
