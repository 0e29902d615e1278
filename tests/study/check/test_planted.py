"""A layer's file is rewritten between baseline and check: what got worse is caught and named, with nothing timed."""

import sys
from collections.abc import Callable, Iterator
from functools import cache
from io import StringIO

import planted_regressions as planted
import pytest
from rich.console import Console

from harness.core.config import compose
from harness.core.model.sweep_axes import Case
from harness.study.check.baseline import Baseline
from harness.study.check.check import Remeasurement, judge_baseline
from harness.study.check.check_rules import Outcome, exit_status

CASES = [Case(planted.IMPL, n, 64, 4) for n in (64, 128, 256, 512)]
Check = Callable[[str], list[Outcome]]


@pytest.fixture(scope="module")
def check(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Check]:
    """Rewrite the layer to the text that is given, measure it again, and judge."""
    layers, runs = tmp_path_factory.mktemp("layers"), tmp_path_factory.mktemp("runs")
    sys.path.append(str(layers))
    config = compose(["memory_limit=1GiB"])
    measured = Remeasurement(config, runs, Console(file=StringIO()), timed=False)
    with measured.session:

        def take(text: str) -> Baseline:
            planted.rewrite(layers, text)
            measured.session.executor.code[planted.IMPL] = {}  # whose files may change here
            return measured.take(CASES, runs / str(len(list(runs.iterdir()))))

        was = take(planted.UNCHANGED)
        yield cache(lambda text: judge_baseline(was, take(text), CASES, timed=False))
    sys.path.remove(str(layers))


def worse(found: list[Outcome]) -> dict[str, str]:
    """The reason at the largest size of each quantity that got worse."""
    return {one.quantity: one.reason for one in found if one.verdict.outcome == "regression"}


def test_the_layer_as_it_was_passes(check: Check) -> None:
    found = check(planted.UNCHANGED)
    assert {one.verdict.outcome for one in found} == {"passed"}
    assert exit_status(found) == 0


@pytest.mark.parametrize("name", planted.PLANTED)
def test_what_is_planted_is_a_regression(name: str, check: Check) -> None:
    assert exit_status(check(planted.PLANTED[name])) == 1


def test_memory_that_became_quadratic_is_named(check: Check) -> None:
    found = worse(check(planted.QUADRATIC_MEMORY))
    assert "at n=512 d=64 h=4" in found["peak memory"]
    assert "its exponent in n 1.00 → " in found["peak memory"]
    assert "flops" not in found
    assert "kernel" not in found


def test_one_more_matrix_product_is_named_to_the_last_digit(check: Check) -> None:
    found = worse(check(planted.ONE_MORE_PRODUCT))
    n, d = 512, 64
    before, after = (products * 2 * n * d * d + 4 * n * n * d for products in (4, 5))
    assert found["flops"].startswith(f"flops {before:,} → {after:,} (×1.0")


def test_a_loop_over_the_steps_is_named(check: Check) -> None:
    found = worse(check(planted.PYTHON_LOOP))
    assert found["depth"] == "depth 6 → 518 (×86.3) at n=512 d=64 h=4; its exponent in n 0.00 → 0.99"
    assert found["exponent of depth in n"] == "exponent of depth in n 0.00 → 0.99; the law was 6, is n + 6"
    assert found["claim of depth"] == "O(1) was confirmed, is refuted: measured n + 6"
    assert "flops" not in found  # sums are not counted: it is the chain that got longer


def test_a_lost_fused_kernel_is_named(check: Check) -> None:
    found = worse(check(planted.LOST_KERNEL))
    assert found["kernel"] == "fused kernel lost: flash before, math now, at n=512 d=64 h=4"
    assert "peak memory" in found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (planted.RAISES, "RuntimeError: no such luck"),
        (planted.WRONG, "incorrect: output is not finite"),
        (planted.GONE, "is neither a class nor a function"),
        (planted.CANNOT_BE_IMPORTED, "No module named 'no_such_module_anywhere'"),
    ],
)
def test_a_layer_that_cannot_be_measured_any_more_is_no_pass(text: str, reason: str, check: Check) -> None:
    found = check(text)
    assert {one.verdict.outcome for one in found} == {"unmeasured"}
    assert len(found) == len(CASES)
    assert reason in found[0].reason
    assert exit_status(found) == 3


def test_less_work_is_an_improvement_though_the_rest_grows_faster(check: Check) -> None:
    found = check(planted.LESS_WORK)
    assert {one.verdict.outcome for one in found if one.quantity == "flops"} == {"improved"}
    assert worse(found) == {}
    assert exit_status(found) == 0
