"""What each layer computes is what it claims, to the last digit."""

from collections.abc import Iterator

import pytest
import torch
from ladder import EAGER, case_of

from harness import catalog, claims
from harness.trial.build import build
from harness.trial.facts.observe import Observation, observe
from impls.impl import KINDS
from impls.registry import IMPLS

# (b, n, d, h): one head and one token among them, sizes that are no powers of two, n on either side of d.
SIZES = [(1, 16, 8, 2), (2, 1, 8, 4), (3, 7, 12, 3), (2, 40, 8, 1), (1, 5, 48, 4), (2, 33, 20, 5), (1, 200, 16, 4)]
MODES = ("forward", "train", "backward", "decode")
# A token more is a whole pass under a causal mask, of which the kernel does no more than the mask leaves.
CAUSAL_STEPS = ("attention.uncached",)


@pytest.fixture(autouse=True)
def _gradients_as_before() -> Iterator[None]:
    torch.set_grad_enabled(True)
    yield
    torch.set_grad_enabled(True)


def observed(impl: str, b: int, n: int, d: int, h: int, mode: str) -> Observation:
    torch.set_grad_enabled(True)
    return observe(build(case_of(impl, n, d, h, batch_size=b, mode=mode), seed=0))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("impl", EAGER)
def test_the_flops_are_the_claimed_work_times_the_batch(impl: str, size: tuple[int, int, int, int], mode: str) -> None:
    b, n, d, h = size
    claim = claims.work_of(claims.of_impl(impl), mode)
    if claim is None:
        pytest.skip("it claims nothing of that")
    work = observed(impl, b, n, d, h, mode).work
    assert work is not None
    assert work.full == b * claim(n=n, d=d, h=h)
    masked = catalog.load_class(impl).__dict__.get("causal", False) or (impl in CAUSAL_STEPS and mode == "decode")
    assert work.flops == work.full or masked


@pytest.mark.parametrize("impl", EAGER)
def test_the_depth_of_a_forward_pass_is_of_the_claimed_order(impl: str) -> None:
    claim = claims.of_impl(impl).get("depth")
    if claim is None:
        pytest.skip("it claims nothing of that")
    depths = [observed(impl, 1, n, 8, 4, "forward").depth for n in (128, 256, 512)]
    first, second = depths[1] - depths[0], depths[2] - depths[1]
    if any(term.log for term in claim.terms):
        assert first == second > 0
    elif claim(n=2, d=1) > claim(n=1, d=1):
        assert second == 2 * first > 0
    else:
        assert first == second == 0


@pytest.mark.parametrize("impl", IMPLS)
def test_every_claim_can_be_read_and_every_kind_is_a_row_of_table_1(impl: str) -> None:
    assert claims.of_impl(impl)
    assert IMPLS[impl].kind in ("", *KINDS)


@pytest.mark.parametrize("impl", IMPLS)
def test_its_family_is_the_first_part_of_its_name(impl: str) -> None:
    assert impl.startswith(IMPLS[impl].family + ".")
