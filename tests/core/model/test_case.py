import pytest

from harness.core.model.case_grid import grid
from harness.core.model.sweep_axes import AXES, Case, Setting, setting_text

AXIS_VALUES = {
    "impl": ("attention.fused", "rnn.elman"),
    "seq_len": (64, 128),
    "d_model": (32,),
    "num_heads": (2, 4),
    "batch_size": (1,),
    "mode": ("forward",),
    "dtype": ("float32",),
    "device": ("cpu",),
    "threads": (1,),
    "allocator": ("default",),
    "mask": ("none",),
    "padding_fraction": (0.0,),
    "kv_len": (0,),
    "num_kv_heads": (0,),
    "options": ("none",),
    "env": ("default",),
    "cache": ("cold",),
    "launch": ("eager",),
    "inputs": ("normal",),
    "lengths": ("equal",),
}


def test_a_layer_without_heads_is_in_the_grid_once_and_not_once_a_head_count() -> None:
    cases = list(grid(AXIS_VALUES, lambda impl: impl.startswith("attention")))
    assert [(c.seq_len, c.num_heads) for c in cases if c.impl == "attention.fused"] == [
        (64, 2),
        (64, 4),
        (128, 2),
        (128, 4),
    ]
    assert [(c.seq_len, c.num_heads) for c in cases if c.impl == "rnn.elman"] == [(64, 1), (128, 1)]


def test_a_gpus_case_is_in_the_grid_once_whatever_the_c_librarys_allocator() -> None:
    values = {**AXIS_VALUES, "allocator": ("default", "steady"), "device": ("cpu", "cuda")}
    cases = list(grid(values, lambda _: True))
    assert {(c.device, c.allocator) for c in cases} == {("cpu", "default"), ("cpu", "steady"), ("cuda", "default")}
    assert len(cases) == len(set(cases))


def test_without_padding_the_fraction_is_0_and_makes_no_case_of_its_own() -> None:
    values = {**AXIS_VALUES, "mask": ("causal", "padding"), "padding_fraction": (0.5, 0.75), "seq_len": (64,)}
    cases = [c for c in grid(values, lambda _: False) if c.impl == "rnn.elman"]
    assert [(c.mask, c.padding_fraction) for c in cases] == [("causal", 0.0), ("padding", 0.5), ("padding", 0.75)]


def test_unequal_lengths_without_a_mask_are_the_mask_padding_and_a_single_sequence_has_one_length() -> None:
    values = {**AXIS_VALUES, "impl": ("rnn.elman",), "seq_len": (64,), "lengths": ("equal", "zipf")}
    values |= {"mask": ("none", "causal", "padding"), "padding_fraction": (0.5,), "batch_size": (1, 4)}
    cases = [(c.batch_size, c.lengths, c.mask, c.padding_fraction) for c in grid(values, lambda _: False)]
    of_equal = [("equal", "none", 0.0), ("equal", "causal", 0.0), ("equal", "padding", 0.5)]
    of_zipf = [(4, "zipf", "padding", 0.0), (4, "zipf", "causal", 0.0)]
    assert sorted(cases) == sorted([(b, *one) for b in (1, 4) for one in of_equal] + of_zipf)


def test_a_decoded_token_comes_after_all_others_and_is_one_case_with_a_causal_mask_or_without() -> None:
    values = {**AXIS_VALUES, "mode": ("decode",), "mask": ("none", "causal"), "seq_len": (64,), "kv_len": (0, 9)}
    cases = [c for c in grid(values, lambda _: False) if c.impl == "rnn.elman"]
    assert [(c.mask, c.kv_len) for c in cases] == [("causal", 0), ("none", 9)]


def test_a_call_that_decodes_processes_one_token_of_each_sequence() -> None:
    assert Case("rnn.elman", 512, 4, 1, batch_size=3).tokens == 1536
    assert Case("rnn.elman", 512, 4, 1, batch_size=3, mode="decode").tokens == 3


def test_a_row_from_before_there_was_an_axis_is_read_with_the_axis_at_its_default() -> None:
    case = Case("rnn.elman", 8, 4, 1)
    old = {name: value for name, value in case.as_dict().items() if name not in ("mask", "padding_fraction", "kv_len")}
    assert Case.from_dict(old) == case


def test_keys_are_unique_and_are_the_overrides_that_measure_the_case_again() -> None:
    cases = list(grid(AXIS_VALUES, lambda _: True))
    assert len({case.key for case in cases}) == len(cases)
    assert dict(part.split("=") for part in cases[0].key.split()) == {k: str(v) for k, v in cases[0].as_dict().items()}


def test_a_case_survives_its_row() -> None:
    case = Case("rnn.elman", 8, 4, 1, mode="train", threads=2)
    assert Case.from_dict(case.as_dict()) == case
    with pytest.raises(KeyError):
        Case.from_dict(dict.fromkeys([*AXES][1:], 1))


@pytest.mark.parametrize(("n", "small"), [(1, 1), (256, 256), (257, 255), (788, 252), (640, 128), (2048, 256)])
def test_the_small_case_of_a_kind_has_a_small_n_as_often_even_and_keeps_the_rest(n: int, small: int) -> None:
    case = Case("attention.fused", n, 512, 8, batch_size=16, dtype="bfloat16")
    assert case.small() == Case("attention.fused", small, 512, 8, batch_size=2, dtype="bfloat16")


@pytest.mark.parametrize(("n", "m", "small"), [(512, 520, 504), (512, 1024, 256), (16, 1000, 248), (512, 300, 252)])
def test_the_small_case_has_no_fewer_keys_than_queries_unless_the_case_has(n: int, m: int, small: int) -> None:
    found = Case("mine:f", n, 512, 8, kv_len=m).small()
    assert found.kv_len == small
    assert (found.kv_len >= found.seq_len) == (m >= n)
    assert found.kv_len & -found.kv_len == min(m & -m, 256)  # its last tile is as ragged


def test_names_and_titles_have_the_environment_only_where_it_is_another_than_the_commands_own() -> None:
    own, other = (Case("rnn.elman", 8, 4, 1, env=env) for env in ("default", "/opt/venv"))
    assert (str(own), str(other)) == ("rnn.elman n=8 d=4 h=1", "rnn.elman n=8 d=4 h=1 /opt/venv")
    titles = [setting_text(Setting.of(case).as_dict()) for case in (own, other)]
    assert titles == ["forward, float32, cpu, 1 thread", "forward, float32, cpu, 1 thread, /opt/venv"]
