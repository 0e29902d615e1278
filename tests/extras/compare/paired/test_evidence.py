"""What blocks say of one case: slower, faster, alike, or not yet anything."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from harness.extras.compare.paired_evidence import (
    Evidence,
    Rules,
    chance_of_decision,
    evidence_of,
    smallest_detectable,
)

# Blocks that share nothing, so that a block is a value of the test.
RULES = Rules(generation=1)


def blocks(ratio: float, number: int, noise: float = 0.01) -> list[float]:
    """As many log ratios, spread about the truth as normal noise on average is."""
    scores = (NormalDist().inv_cdf((i + 0.5) / number) for i in range(number))
    return [math.log(ratio) + noise * score for score in scores]


def says(found: Evidence) -> set[str]:
    return {name for name in ("slower", "faster", "equivalent") if getattr(found, f"p_{name}") <= RULES.alpha}


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(1.0, "equivalent"), (1.005, "equivalent"), (1.1, "slower"), (1 / 1.1, "faster"), (2.0, "slower")],
)
def test_clear_blocks_say_one_thing(ratio: float, said: str) -> None:
    found = evidence_of(blocks(ratio, 18), RULES)
    assert says(found) == {said}
    assert found.ratio == pytest.approx(ratio, rel=0.002)
    assert found.lo < ratio < found.hi


def test_on_the_floor_itself_nothing_is_said() -> None:
    for ratio in (1.03, 1 / 1.03):
        found = evidence_of(blocks(ratio, RULES.most_blocks), RULES)
        assert says(found) == set()


def test_swapping_the_sides_swaps_what_is_said() -> None:
    logs = blocks(1.05, 12)
    there, back = evidence_of(logs, RULES), evidence_of([-log for log in logs], RULES)
    assert (there.p_slower, there.p_faster) == (back.p_faster, back.p_slower)
    assert there.p_equivalent == pytest.approx(back.p_equivalent)
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert (there.lo, there.hi) == pytest.approx((1 / back.hi, 1 / back.lo))


def test_without_blocks_nothing_is_known() -> None:
    found = evidence_of([], RULES)
    assert (found.blocks, found.lo, found.hi) == (0, 0.0, math.inf)
    assert math.isnan(found.ratio)
    assert says(found) == set()
    assert smallest_detectable(found, 1, RULES) == math.inf


def test_who_looks_more_often_must_see_more() -> None:
    logs = blocks(1.045, 12)
    once, often = (evidence_of(logs, Rules(looks=looks, generation=1)) for looks in ((12,), (4, 6, 8, 10, 12)))
    assert often.p_slower == pytest.approx(5 * once.p_slower)
    assert often.lo < once.lo
    assert once.hi < often.hi


def test_what_could_be_seen_is_less_the_more_blocks_and_more_the_more_noise_and_cases() -> None:
    seen = [smallest_detectable(evidence_of(blocks(1.0, number), RULES), 12, RULES) for number in RULES.looks]
    assert seen == sorted(seen, reverse=True)
    assert RULES.threshold < seen[-1] < seen[0]
    noisy = evidence_of(blocks(1.0, 40, noise=0.03), RULES)
    assert seen[-1] < smallest_detectable(noisy, 12, RULES) < smallest_detectable(noisy, 50, RULES)


def test_blocks_too_few_to_call_any_of_so_many_cases_see_nothing() -> None:
    rules = Rules(looks=(8,), generation=1)
    found = evidence_of(blocks(1.0, 8), rules)
    clear = evidence_of(blocks(10.0, 8), rules)
    assert clear.p_slower <= rules.alpha / 12
    assert math.isfinite(smallest_detectable(found, 12, rules))
    assert clear.p_slower > rules.alpha / 13
    assert smallest_detectable(found, 13, rules) == math.inf


@pytest.mark.parametrize(("number", "cases"), [(18, 1), (40, 1), (40, 12)])
def test_what_is_said_to_be_seen_is_seen_four_times_in_five(number: int, cases: int) -> None:
    rng = np.random.default_rng(number + cases)
    noise = 0.01 * rng.standard_normal((400, number))
    least = np.median([smallest_detectable(evidence_of(list(logs), RULES), cases, RULES) for logs in noise[:100]])
    found = [evidence_of(list(math.log1p(least) + logs), RULES).p_slower <= RULES.alpha / cases for logs in noise[100:]]
    assert 0.7 <= np.mean(found) <= 0.92


def test_blocks_of_one_generation_say_no_more_than_their_mean() -> None:
    rules = Rules(generation=4)
    logs = blocks(1.05, 12)
    shared = [log + wobble for log in logs for wobble in (-0.02, 0.01, 0.03, -0.02)]
    found, of_means = evidence_of(shared, rules), evidence_of(logs, RULES)
    assert found.blocks == 48
    assert (found.p_slower, found.ratio) == pytest.approx((of_means.p_slower, of_means.ratio))
    last_unfinished = evidence_of([*shared, 0.7], rules)
    assert last_unfinished.p_slower == pytest.approx(evidence_of([*logs, 0.7], RULES).p_slower)


@pytest.mark.parametrize(("ratio", "noise"), [(1.0, 0.03), (1.02, 0.02), (1.05, 0.04), (1.03, 0.02)])
@pytest.mark.parametrize("more", [12, 40])
def test_the_chance_of_a_decision_is_how_often_one_follows(ratio: float, noise: float, more: int) -> None:
    # Simulated: the truth drawn from what 18 blocks tell, then the further blocks, judged once at their end.
    rng = np.random.default_rng(more)
    start = blocks(ratio, 18, noise)
    chance = chance_of_decision(evidence_of(start, RULES), more, 6, RULES)
    truths = math.log(ratio) + noise / math.sqrt(18) * rng.standard_normal(300)
    futures = [[*start, *(truth + noise * rng.standard_normal(more))] for truth in truths]
    found = [evidence_of(logs, RULES) for logs in futures]
    decided = np.mean([min(6 * one.p_slower, 6 * one.p_faster, one.p_equivalent) <= RULES.alpha for one in found])
    assert chance == pytest.approx(decided, abs=0.12)


def test_without_time_there_is_no_chance_and_where_nothing_is_known_yet_there_is_hope() -> None:
    clear = evidence_of(blocks(1.5, 18), RULES)
    assert chance_of_decision(clear, 0, 6, RULES) == 0.0
    assert chance_of_decision(clear, 100, 6, RULES) == pytest.approx(1.0)
    assert chance_of_decision(evidence_of(blocks(1.0, 4), RULES), 20, 6, RULES) == 1.0
