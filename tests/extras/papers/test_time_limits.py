"""No case of a paper is bound to time out on a GPU: the launches of its loops fit into a trial's time."""

from dataclasses import replace
from functools import cache

import pytest
from extras.papers.test_presets import NAMES

from harness.core.config import compose
from harness.core.layers import layer_lookup
from harness.core.model.case_grid import grid
from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor

# An operation takes the host some 5 to 7 µs to launch, and the longest trial of a case makes about 25 calls. A slow
# host takes twice as long.
LAUNCH_S, CALLS, SLOW_HOST = 7e-6, 25, 2
SHORT, LONGER = 32, 64


def longest_loops(cases: list[Case]) -> list[Case]:
    """The longest case of each layer and mode whose sequential depth grows with n, as theory claims."""
    longest: dict[tuple[str, str], Case] = {}
    for case in sorted(cases, key=lambda case: case.seq_len):
        depth = layer_lookup.claims_of_impl(case.impl, case)["depth"]
        n, d, h = case.seq_len, case.d_model, case.num_heads
        if case.mode != "decode" and depth(2 * n, d, h) > depth(n, d, h):
            longest[case.impl, case.mode] = case
    return [*longest.values()]


@cache
def counted(case: Case, runner: Executor) -> int:
    """The operations of one call of a case, which several papers may share."""
    return int(runner.run("facts", case).values["ops"])


def operations(case: Case, runner: Executor) -> float:
    """The operations of one call. They are counted at two small n, between which they grow linearly."""
    heads = min(2, case.num_heads)
    small = replace(case, d_model=16, num_heads=heads, batch_size=1, dtype="float32", device="cpu", threads=1)
    short, longer = (counted(small.at("seq_len", n), runner) for n in (SHORT, LONGER))
    return longer + (longer - short) / (LONGER - SHORT) * (case.seq_len - LONGER)


@pytest.mark.parametrize("name", NAMES)
def test_the_loops_of_a_paper_fit_into_the_time_of_a_trial(name: str, runner: Executor) -> None:
    config = compose([f"paper={name}"], for_sweep=True)
    cases = list(grid(config.axes, lambda impl: layer_lookup.registered(impl).has_heads, config.points))
    for case in longest_loops(cases):
        trial_s = SLOW_HOST * CALLS * LAUNCH_S * operations(case, runner)
        assert trial_s <= config.precision.timeout_s, f"{case} may take {trial_s:.0f} s"


@pytest.mark.parametrize("precision", ["quick", "standard", "strict"])
def test_a_longer_limit_of_a_paper_is_never_below_that_of_a_precision(precision: str) -> None:
    for name in NAMES:
        asked, usual = (
            compose([*paper, f"precision={precision}"], for_sweep=True).precision for paper in ([f"paper={name}"], [])
        )
        assert asked == replace(usual, timeout_s=max(asked.timeout_s, usual.timeout_s))
