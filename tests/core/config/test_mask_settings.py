"""An option without effect is an error; a default without effect is not."""

import pytest

from harness.core.config import compose
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["padding_fraction=0.5"],
            "padding_fraction=0.5 says how much of a padded batch is padding: give mask=padding too, or",
        ),
        (
            ["mask=none,causal", "padding_fraction=0.5,0"],
            "padding_fraction=0.5,0.0 says how much of a padded batch is padding",
        ),
        (["mode=decode", "mask=none"], "a token comes after all others: give mask=causal, or leave mask out"),
        (["mode=decode", "mask=causal", "kv_len=8"], "a token sees all of a source: give mask=none, or leave mask"),
    ],
)
def test_a_setting_that_would_do_nothing_gets_a_line(overrides: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        compose(overrides)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("overrides", "masks", "shares"),
    [
        (["mode=decode"], ("none",), (0.25,)),
        (["mode=decode", "mask=none,causal"], ("none", "causal"), (0.25,)),
        (["mode=forward,decode", "mask=none"], ("none",), (0.25,)),
        (["mode=decode", "mask=none", "kv_len=8"], ("none",), (0.25,)),
        (["mode=decode", "mask=padding", "padding_fraction=0.5"], ("padding",), (0.5,)),
        (["mask=none,padding", "padding_fraction=0.5"], ("none", "padding"), (0.5,)),
        (["padding_fraction=0"], ("none",), (0.0,)),
    ],
)
def test_a_default_and_what_does_something_for_some_case_are_taken(
    overrides: list[str], masks: tuple[str, ...], shares: tuple[float, ...]
) -> None:
    axes = compose(overrides).axes
    assert (axes["mask"], axes["padding_fraction"]) == (masks, shares)


@pytest.mark.parametrize("case", [Case("rnn.elman", 8, 4, 1), Case("rnn.elman", 8, 4, 1, mode="decode", mask="causal")])
def test_the_key_of_a_case_can_be_pasted(case: Case) -> None:
    axes = compose(case.key.split()).axes
    assert axes == {name: (value,) for name, value in case.as_dict().items()}


def test_what_a_command_has_by_itself_is_not_given_twice() -> None:
    axes = compose(["seq_len=32"], usual=["seq_len=64", "d_model=16"]).axes
    assert (axes["seq_len"], axes["d_model"]) == ((32,), (16,))
