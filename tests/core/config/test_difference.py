"""The message about two configurations that differ."""

import pytest
import yaml

from harness.core.config import compose
from harness.core.config.compose import differences


def config(*overrides: str) -> dict:
    return yaml.safe_load(compose(overrides, for_sweep=True).yaml)


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        (["seq_len=64,128"], ["seq_len=64,256"], ["seq_len=64,128 before and 64,256 now"]),
        (["precision.trial_s=8"], ["precision.trial_s=9"], ["precision.trial_s=8 before and 9 now"]),
        ([], ["memory_limit=1GiB"], ["memory_limit=null before and 1GiB now"]),
        (["mode=train"], ["mode=[train]"], []),
        (["out=a"], ["out=b"], []),
        ([], ["retry=timeout,oom"], []),
        ([], ["grow=seq_len"], ["grow=null before and seq_len now"]),
        (
            ["paper=mingru2024", "scale=cpu"],
            ["paper=mingru2024", "batch_size=8", "device=cpu", "precision.timeout_s=60"],
            ["paper.scale=cpu before and full now"],
        ),
    ],
)
def test_every_setting_that_is_another_is_told(before: list[str], now: list[str], told: list[str]) -> None:
    assert differences(config(*before), config(*now)) == told


def test_a_setting_that_came_later_was_none_before() -> None:
    before = {key: value for key, value in config().items() if key not in ("grow", "retry")}
    assert differences(before, config()) == []
    assert differences(before, config("grow=seq_len")) == ["grow=null before and seq_len now"]
