"""Sizes that go together are points, and not every combination of their values."""

import pytest

from harness.core.config import compose
from harness.core.model.case_grid import grid
from harness.core.model.errors import UsageError

POINTS = "points=[{seq_len:512,batch_size:32},{seq_len:1024,batch_size:16}]"


def sizes(*overrides: str) -> list[tuple[int, int, int]]:
    config = compose(["impl=attention.fused", "num_heads=2", *overrides], for_sweep=True)
    cases = grid(config.axes, lambda impl: True, config.points)
    return [(case.seq_len, case.batch_size, case.d_model) for case in cases]


def test_points_are_combined_with_the_other_axes_alone() -> None:
    assert sizes(POINTS, "d_model=64,128") == [(512, 32, 64), (512, 32, 128), (1024, 16, 64), (1024, 16, 128)]


def test_an_axis_that_is_asked_for_by_itself_chooses_among_the_points() -> None:
    assert sizes(POINTS, "d_model=64", "seq_len=1024") == [(1024, 16, 64)]


def test_the_axes_have_the_values_of_the_points_too() -> None:
    config = compose([POINTS], for_sweep=True)
    assert config.axes["seq_len"] == (512, 1024)
    assert config.axes["batch_size"] == (32, 16)
    assert "points:\n- seq_len: 512\n  batch_size: 32\n" in config.yaml


def test_what_goes_with_a_larger_size_no_point_says_so_that_none_can_grow() -> None:
    with pytest.raises(UsageError, match="none of points says"):
        compose([POINTS, "grow=seq_len"], for_sweep=True)
    assert compose([POINTS, "grow=d_model"], for_sweep=True).grow == "d_model"


def test_only_a_sweep_takes_points() -> None:
    with pytest.raises(UsageError, match="unknown key 'points'"):
        compose([POINTS])
