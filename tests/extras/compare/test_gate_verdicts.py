"""Which verdicts on known changes are wrong. On a GPU, the gate's benchmark fails if there is one."""

import pytest
from extras.compare.gate.recorded import Recorded, wrong_verdicts


def run(effects: list[float], verdicts: list[str]) -> Recorded:
    return Recorded("planted", effects, verdicts, True, 1.0, [], [])


@pytest.mark.parametrize("verdict", ["slower", "faster"])
def test_an_alarm_on_identical_code_is_wrong(verdict: str) -> None:
    runs = [run([0.0], ["equivalent"]), run([0.0, 0.0], ["undecided", verdict])]
    assert wrong_verdicts(runs) == [f"planted 2, case 2: {verdict}, planted +0.0%"]


@pytest.mark.parametrize("verdict", ["equivalent", "undecided", "faster"])
def test_a_planted_share_of_5_percent_that_is_not_called_slower_is_wrong(verdict: str) -> None:
    assert wrong_verdicts([run([21 / 20 - 1, 0.2], [verdict, "slower"])]) == [
        f"planted 1, case 1: {verdict}, planted +5.0%"
    ]


@pytest.mark.parametrize("verdict", ["slower", "equivalent", "undecided"])
def test_a_share_below_the_threshold_may_have_any_of_these_verdicts(verdict: str) -> None:
    assert wrong_verdicts([run([51 / 50 - 1], [verdict])]) == []
