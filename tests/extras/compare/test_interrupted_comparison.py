"""A recorded comparison keeps its blocks as they are measured, and continues after an interruption."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from extras.compare.gate import recorded

ROW = {"log_ratio": 0.0, "used_s": 1.0}


class Measuring:
    """Stands for `PairTimer`: it takes three blocks, less those of the past, and may be killed before the last one."""

    def __init__(self) -> None:
        self.past: list[Any] = []
        self.is_killed = True

    def __call__(
        self, pairs: Any, sides: Any, rules: Any, seed: int, log: Callable, screen: Any, past: Sequence
    ) -> "Measuring":
        self.past, self.log = list(past), log
        return self

    def time_pairs(self) -> None:
        for number in range(len(self.past), 3):
            if self.is_killed and number == 2:
                raise KeyboardInterrupt
            self.log({**ROW, "number": number})


@pytest.fixture
def measuring(monkeypatch: pytest.MonkeyPatch) -> Measuring:
    stand_in = Measuring()
    monkeypatch.setattr(recorded, "PairTimer", stand_in)
    monkeypatch.setattr(recorded, "verdicts_of", lambda measured, rules: [])
    monkeypatch.setattr(recorded, "controls_of", lambda measured, rules: [])
    return stand_in


@pytest.mark.parametrize("cut_off", ["", '{"log_ratio": 0.'])
def test_an_interrupted_comparison_continues_after_its_blocks(
    tmp_path: Path, measuring: Measuring, cut_off: str
) -> None:
    into = tmp_path / "comparisons.jsonl"
    with pytest.raises(KeyboardInterrupt):
        recorded.record("planted", [], [], 0, into)
    blocks = tmp_path / "blocks-planted-0.jsonl"
    assert len(blocks.read_text().splitlines()) == 2
    with blocks.open("a") as file:
        file.write(cut_off)
    measuring.is_killed = False
    recorded.record("planted", [], [], 0, into)
    assert [row["number"] for row in measuring.past] == [0, 1]
    assert [json.loads(line)["number"] for line in blocks.read_text().splitlines()] == [0, 1, 2]
    assert [one.wall_s for one in recorded.read(into)] == [1.0]
