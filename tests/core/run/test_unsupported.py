"""Refused cases are known before anything is measured, with the reasons that the sweep will give."""

from dataclasses import replace
from pathlib import Path

import pytest

from harness.core.model.sweep_axes import Case
from harness.core.run.executor import Executor

FILE = Path(__file__).with_name("refusing.py")
PLAIN = Case("attention.fused", 16, 8, 2)
REFUSED = {
    replace(PLAIN, impl="sdpa.naive", mode="decode", mask="causal"): "its input is 3 times as wide as its output",
    replace(PLAIN, impl="conv.conv1d", num_heads=1, kv_len=8): "its forward takes no source",
    replace(PLAIN, mask="causal", kv_len=8): "a source has no later tokens to hide",
    replace(PLAIN, mode="decode", mask="padding", padding_fraction=0.5): "one token after another has no padding",
    replace(PLAIN, impl="attention.fused.efficient"): "the memory-efficient attention kernel runs on CUDA only",
    Case(f"{FILE}:OnlyEven", 7, 8, 1): "n is odd",
}
TAKEN = [
    *(PLAIN, replace(PLAIN, mode="decode", mask="causal"), replace(PLAIN, impl="sdpa.naive", mask="causal")),
    Case(f"{FILE}:OnlyEven", 8, 8, 1),
]
OF_OTHER_TILES, ONLY_LONG, RAISES, EXITS = (
    Case(f"{FILE}:{name}", 4096, 8, 1) for name in ("OfOtherTiles", "OnlyLong", "Raises", "Exits")
)


# The status and reason of each refused case.
Refusals = dict[Case, tuple[str, str]]


@pytest.fixture(scope="module")
def found(runner: Executor) -> Refusals:
    return runner.refused([RAISES, EXITS, *REFUSED, *TAKEN, OF_OTHER_TILES, ONLY_LONG])


def test_what_a_layer_refuses_is_told_with_its_reason_and_what_it_takes_is_not(
    found: Refusals,
) -> None:
    for case, reason in REFUSED.items():
        status, said = found[case]
        assert (status, said[: len(reason)]) == ("unsupported", reason), case
    assert not found.keys() & set(TAKEN)


def test_one_that_takes_no_n_that_is_small_enough_to_be_verified_cannot_be(found: Refusals) -> None:
    assert found[ONLY_LONG] == ("unsupported", "n is short")


def test_one_that_takes_another_small_n_is_verified_at_that(found: Refusals) -> None:
    assert OF_OTHER_TILES.small().seq_len == 256
    assert OF_OTHER_TILES not in found


def test_a_sweep_says_the_same(found: Refusals, runner: Executor) -> None:
    for case in [*REFUSED, *TAKEN, OF_OTHER_TILES, ONLY_LONG, RAISES, EXITS]:
        outcome = runner.run("verify", case.small())
        if outcome.status == "ok" and case is not OF_OTHER_TILES:  # it has too many tokens for `facts` here
            outcome = runner.run("facts", case)
        assert found.get(case, ("ok", None)) == (outcome.status, outcome.reason), case


def test_a_layer_that_does_not_come_to_say_it_is_told_as_that(found: Refusals) -> None:
    assert found[RAISES][0] == "error"
    assert found[RAISES][1].startswith(
        "ValueError: Raises.supports(case), which returns a reason or None, fails: no such luck (refusing.py:"
    )
    assert found[EXITS] == ("error", "its process ended with exit status 3 and without a result")
