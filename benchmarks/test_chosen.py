"""Which layers the benchmark over the registry times."""

import pytest

from benchmarks.chosen import impls, lengths, others
from impls.registry import IMPLS


def test_without_a_choice_it_is_every_layer_that_does_not_compile() -> None:
    assert impls({}) == [name for name, impl in IMPLS.items() if not impl.compiled]
    assert lengths({}) == [64, 128, 256, 512]
    assert others({}) == {"d_model": 64, "num_heads": 4}


def test_layers_are_chosen_by_globs_compiled_ones_too() -> None:
    assert impls({"HARNESS_BENCH_IMPLS": "attention.compiled,rnn.torc*"}) == ["rnn.torch", "attention.compiled"]


def test_axes_are_of_their_own_type() -> None:
    said = {"HARNESS_BENCH_CASE": "d_model=16 mask=padding padding_fraction=0.5", "HARNESS_BENCH_SEQ_LENS": "8,16"}
    assert others(said) == {"d_model": 16, "num_heads": 4, "mask": "padding", "padding_fraction": 0.5}
    assert lengths(said) == [8, 16]


@pytest.mark.parametrize(
    ("choose", "name", "value"),
    [
        (impls, "IMPLS", "atention.*"),
        (lengths, "SEQ_LENS", "64,many"),
        (lengths, "SEQ_LENS", "0"),
        (others, "CASE", "d_modl=3"),
        (others, "CASE", "impl=rnn.torch"),
        (others, "CASE", "d_model=wide"),
    ],
)
def test_what_there_is_none_of_is_said(choose, name: str, value: str) -> None:
    with pytest.raises(pytest.UsageError, match=f"HARNESS_BENCH_{name}"):
        choose({f"HARNESS_BENCH_{name}": value})
