"""What each layer computes is what it claims, to the last digit."""

from collections.abc import Iterator

import pytest
import torch

from harness import claims
from harness.case import Case
from harness.trial.build import build
from harness.trial.facts.observe import Observation, observe
from impls.registry import IMPLS

# (b, n, d, h): one head and one token among them, sizes that are no powers of two, n on either side of d.
SIZES = [(1, 16, 8, 2), (2, 1, 8, 4), (3, 7, 12, 3), (2, 40, 8, 1), (1, 5, 48, 6), (2, 33, 20, 5)]


@pytest.fixture(autouse=True)
def _gradients_as_before() -> Iterator[None]:
    yield
    torch.set_grad_enabled(True)


def observed(impl: str, b: int, n: int, d: int, h: int, mode: str) -> Observation:
    torch.set_grad_enabled(True)
    return observe(build(Case(impl, n, d, h, batch_size=b, mode=mode), seed=0))


@pytest.mark.parametrize(("mode", "claim"), [("forward", "work"), ("train", "work_train")])
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("impl", IMPLS)
def test_the_flops_are_the_claimed_work_times_the_batch(
    impl: str, size: tuple[int, int, int, int], mode: str, claim: str
) -> None:
    b, n, d, h = size
    work = observed(impl, b, n, d, h, mode).work
    assert work is not None
    assert work.flops == b * claims.of_impl(impl)[claim](n=n, d=d, h=h)
    assert work.full == work.flops


@pytest.mark.parametrize("impl", IMPLS)
def test_the_depth_of_a_forward_pass_is_of_the_claimed_order(impl: str) -> None:
    depths = [observed(impl, 1, n, 8, 2, "forward").depth for n in (64, 128, 256)]
    grows = claims.of_impl(impl)["depth"](n=2, d=1) > claims.of_impl(impl)["depth"](n=1, d=1)
    assert depths[2] - depths[1] == 2 * (depths[1] - depths[0])
    assert (depths[1] > depths[0]) == grows
