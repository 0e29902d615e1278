"""`head_dim=` sets d_model = num_heads × head_dim, in sweeps and the choice of a baseline's cases."""

import pytest
import yaml
from cli.known_runs import cases as known_cases

from harness.core.config import compose
from harness.core.config.compose import differences
from harness.core.model.case_grid import grid
from harness.core.model.errors import UsageError
from harness.core.model.sweep_axes import Case
from harness.study.check.check import choose_cases, split_filters

IMPLS = "impl=attention.fused,rnn.torch"


def sizes(*overrides: str) -> list[tuple[str, int, int]]:
    """The layer, width and heads of every case that the overrides define."""
    config = compose([IMPLS, "seq_len=64", *overrides], for_sweep=True)
    return [
        (case.impl, case.d_model, case.num_heads)
        for case in grid(config.axes, lambda impl: impl.startswith("attention"), config.points)
    ]


def test_every_head_dim_goes_with_every_number_of_heads_and_with_layers_that_have_none() -> None:
    assert sizes("head_dim=64", "num_heads=2,8") == [
        *(("attention.fused", 128, 2), ("rnn.torch", 128, 1)),
        *(("attention.fused", 512, 8), ("rnn.torch", 512, 1)),
    ]
    of_fused = [size for size in sizes("head_dim=32,64", "num_heads=2,4") if size[0] == "attention.fused"]
    assert [size[1:] for size in of_fused] == [(64, 2), (128, 4), (128, 2), (256, 4)]


def test_the_width_is_that_of_the_shape_s_heads() -> None:
    assert sizes("shape=bert_base", "head_dim=32") == [("attention.fused", 384, 12), ("rnn.torch", 384, 1)]
    assert compose(["head_dim=1k", "num_heads=2"]).axes["d_model"] == (2048,)


def test_it_combines_with_points_that_have_no_width() -> None:
    config = compose(["points=[{n:64,h:2},{n:128,h:4}]", "head_dim=16,32"], for_sweep=True)
    found = [(point["seq_len"], point["num_heads"], point["d_model"]) for point in config.points]
    assert found == [(64, 2, 32), (128, 4, 64), (64, 2, 64), (128, 4, 128)]


def test_a_run_continues_with_the_same_head_dim_only() -> None:
    def stored(*overrides: str) -> dict:
        return yaml.safe_load(compose(overrides, for_sweep=True).yaml)

    assert differences(stored("head_dim=64", "num_heads=2"), stored("head_dim=64", "num_heads=2")) == []
    assert differences(stored("head_dim=64", "num_heads=2"), stored("head_dim=32", "num_heads=2"))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["head_dim=64", "d_model=128"], "head_dim=64 sets d_model = num_heads × head_dim: leave d_model=128 out"),
        (["head_dim=0"], "head_dim=0: it takes whole numbers from 1 to 1000000"),
        (["head_dim=64,x"], "head_dim=64,x: it takes whole numbers from 1 to 1000000"),
        (["head_dim=1.5"], "head_dim=1.5: it takes whole numbers from 1 to 1000000"),
        (["head_dim=[]"], "head_dim=: it takes whole numbers from 1 to 1000000"),
        (["head_dim=1000000", "num_heads=2"], "d_model=2000000: it takes whole numbers from 1 to 1000000"),
        (["head_dim=64", "num_heads=x"], "num_heads=x: it takes whole numbers from 1 to 1000000"),
        (
            ["head_dim=64", "points=[{seq_len:8,d_model:64}]"],
            "head_dim sets d_model, and the points have a d_model too: leave one of them out",
        ),
        (["head_size=64"], "unknown key 'head_size'; did you mean 'head_dim'?"),
    ],
)
def test_what_cannot_be_is_one_line(overrides: list[str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        compose(overrides, for_sweep=True)
    assert str(caught.value) == said


def test_a_command_s_own_width_gives_way() -> None:
    assert compose(["head_dim=8", "num_heads=2"], usual=["d_model=64", "num_heads=4"]).axes["d_model"] == (16,)


def test_a_check_chooses_the_cases_with_such_heads_and_their_width_without_heads() -> None:
    all_cases = known_cases()
    axes, others = split_filters(["head_dim=32"])
    assert (axes, others) == (["head_dim=32"], [])
    chosen = choose_cases(all_cases, axes, "b.json")
    of_fused = {(case.d_model, case.num_heads) for case in chosen if case.impl == "attention.fused"}
    assert of_fused == {(d, h) for d, h in {(c.d_model, c.num_heads) for c in all_cases} if h > 1 and d == 32 * h}
    assert {case.d_model for case in chosen if case.impl == "rnn.torch"} == {d for d, _ in of_fused}
    with pytest.raises(UsageError, match=r"no case of b.json has head_dim=7 all at once"):
        choose_cases([Case("rnn.torch", 8, 8, 1)], ["head_dim=7"], "b.json")
